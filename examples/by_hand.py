"""A loop of your own instead of a worker: claim, renew, and say how it ended.

python examples/by_hand.py
"""

from holdfast import Fatal, Holdfast, LeaseLost, Retry

app = Holdfast("sqlite:///by_hand.db")


@app.task(queue="scans", retry=Retry(delays=[60]))
def read_scan(path: str) -> int:
    return len(path)


def work(name: str) -> None:
    while (lease := app.claim(queues=["scans"], worker=name, seconds=30)) is not None:
        path = lease.job.arguments["path"]
        try:
            if path.endswith(".txt"):
                job = app.skip(lease, "not a scan")
            elif path == "broken.tiff":
                job = app.fail(lease, Fatal("cannot be read"))
            elif path == "locked.tiff":
                job = app.fail(lease, PermissionError("somebody has it open"))
            else:
                app.renew(lease)  # as often as it takes, for a long one
                job = app.finish(lease, read_scan(path), meter={"pages": 1})
        except LeaseLost:
            continue  # it took too long, and somebody else has the job now: nothing was written
        print(f"{path}: {job.state}{f' ({job.error})' if job.error else ''}")


def main() -> None:
    for path in ("a.tiff", "notes.txt", "broken.tiff", "locked.tiff"):
        read_scan.enqueue(path)
    read_scan.using(priority=1).enqueue("urgent.tiff")
    work("scanner-1")
    print(app.stats())


if __name__ == "__main__":
    main()
