"""A corpus to work through by priority, each piece of content once, with the costs counted.

python examples/gpu_backfill.py
"""

import hashlib
import time

from holdfast import Context, Holdfast, Key, Retry, Skip

app = Holdfast("sqlite:///backfill.db")


@app.task(queue="gpu", lease=60, retry=Retry(attempts=5, base=30, cap=3600))
def transcribe(ctx: Context, talk: str, content: str) -> str:
    if not content:
        raise Skip("nothing to hear")
    began = time.perf_counter()
    for number in range(1, 4):
        ctx.progress(number, 3, model="large-v3")
        ctx.check()  # stops here if the job was cancelled
    ctx.meter(gpu_seconds=time.perf_counter() - began)
    return f"s3://transcripts/{talk}.txt"


def backfill(corpus: dict[str, str], priority: int = 100) -> None:
    """Content that was seen before, under whatever name, is left out."""
    batch = app.enqueue_many(
        transcribe.using(key=Key("transcribe", digest(content)), priority=priority, parent="corpus-2030", tags=["audio"]).bind(
            talk, content
        )
        for talk, content in corpus.items()
    )
    print(f"{len(batch)} talks, {batch.created} of them new")


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def main() -> None:
    backfill({"keynote": "hello", "panel": "a b c", "copy-of-keynote": "hello", "silence": ""})
    backfill({"filing": "urgent words"}, priority=1)
    app.worker(queues=["gpu"], concurrency=1).run_until_empty()  # one at a time
    for job in app.jobs(parent="corpus-2030", newest=False):
        print(f"{job.arguments['talk']}: {job.state} {job.result or job.error}")
    print(app.stats())


if __name__ == "__main__":
    main()
