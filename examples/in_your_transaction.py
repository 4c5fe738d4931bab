"""A job and the rows that it is about, in one transaction: both are there, or neither is.

python examples/in_your_transaction.py
"""

import sqlite3
from contextlib import closing

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from holdfast import Context, Holdfast, Key

PATH = "shop.db"
app = Holdfast(f"sqlite:///{PATH}")
engine = create_engine(f"sqlite:///{PATH}")


@app.task
def send_invoice(ctx: Context, order: int) -> None:
    """The invoice and the job's end commit together, so an order is never invoiced twice."""
    with Session(engine) as session, session.begin():
        session.execute(text("INSERT INTO invoice (customer) VALUES (:customer)"), {"customer": order})
        ctx.finish(on=session, result={"invoiced": order})


def order_with_sqlite3(customer: str) -> None:
    with closing(sqlite3.connect(PATH)) as connection, connection:  # commits at the end, or rolls back
        order = connection.execute("INSERT INTO orders (customer) VALUES (?)", (customer,)).lastrowid
        assert order is not None
        send_invoice.using(on=connection, key=Key("invoice", order)).enqueue(order)


def order_with_sqlalchemy(customer: str, fails: bool = False) -> None:
    with Session(engine) as session, session.begin():
        order = session.execute(text("INSERT INTO orders (customer) VALUES (:name)"), {"name": customer}).lastrowid  # type: ignore[attr-defined]
        send_invoice.using(on=session, key=Key("invoice", order)).enqueue(order)
        if fails:
            raise RuntimeError("the card was declined")


def main() -> None:
    app.migrate()  # creates Holdfast's tables beside yours
    with closing(sqlite3.connect(PATH)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT)")
        connection.execute("CREATE TABLE IF NOT EXISTS invoice (id INTEGER PRIMARY KEY, customer INTEGER)")

    order_with_sqlite3("Ada")
    order_with_sqlalchemy("Grace")
    try:
        order_with_sqlalchemy("Mallory", fails=True)
    except RuntimeError as error:
        print(f"rolled back: {error}")

    app.worker(concurrency=2).run_until_empty()
    with closing(sqlite3.connect(PATH)) as connection:
        orders = connection.execute("SELECT count(*) FROM orders").fetchone()[0]
        invoices = connection.execute("SELECT count(*) FROM invoice").fetchone()[0]
    print(f"{orders} orders, {invoices} invoices, {app.stats()}")


if __name__ == "__main__":
    main()
