"""A task, a job, a worker: all in one file. Run it twice: the second time it goes on where the first left off.

python examples/quickstart.py
"""

from holdfast import Context, Holdfast, Retry

app = Holdfast("sqlite:///quickstart.db")


@app.task(retry=Retry(attempts=3, delays=[0.1, 0.5]))
def greet(ctx: Context, name: str) -> str:
    ctx.progress(1, 1, greeted=name)
    if name == "Grace" and ctx.attempt == 1:
        raise ConnectionError("the line is busy")
    return f"Hello, {name}!"


def main() -> None:
    jobs = app.enqueue_many(greet.bind(name) for name in ("Ada", "Grace", "Barbara"))
    print(f"enqueued {len(jobs)} jobs")

    app.worker(concurrency=2).run_until_empty()  # `holdfast worker quickstart:app` runs one for good
    for job in jobs:
        print(job.state, job.attempt, job.result or job.error)

    app.worker().run_until_empty()
    left = app.jobs(state="scheduled")
    print(f"{len(left)} will be tried again: {left[0].error}" if left else "all done")


if __name__ == "__main__":
    main()
