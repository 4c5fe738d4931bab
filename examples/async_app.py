"""Inside an asyncio program: a worker in the same event loop, live events, and an answer to wait for.

python examples/async_app.py
"""

import asyncio

from holdfast import Context, Holdfast, Key

app = Holdfast("sqlite:///async_app.db")


@app.task
async def summarise(ctx: Context, document: str) -> str:
    words = document.split()
    for number, word in enumerate(words, 1):
        await asyncio.sleep(0)  # where the real work would be awaited
        ctx.progress(number, len(words))
        ctx.emit("word", {"word": word})
    return " ".join(words[:3]) + " …"


async def watch(id: str) -> None:
    async for event in app.aevents(id, follow=True):
        if event.kind == "word":
            print(f"  {event.number}: {event.data['word']}")


async def main() -> None:
    worker = app.worker(concurrency=4)
    working = asyncio.create_task(worker.arun())

    text = "Durable jobs in the database you already have"
    job = await summarise.using(key=Key("summary", text)).aenqueue(text)
    again = await summarise.using(key=Key("summary", text)).aenqueue(text)
    print(f"the same job: {again.id == job.id}, created: {again.created}")

    await watch(job.id)
    done = await app.await_job(job.id, timeout=30)
    print(f"{done.state}: {done.result}")

    worker.stop()
    await working


if __name__ == "__main__":
    asyncio.run(main())
