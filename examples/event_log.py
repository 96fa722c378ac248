"""A log of loan applications, as process miners have them in CSV: which cases break the rules, and which match a
pattern."""

import csv
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from eddyline import Session


def write_log(path: Path, cases: int = 40) -> None:
    """Applications with the shape of a loan process: checks side by side, offers in a loop, one of three ends. Some
    break a rule."""
    draw = random.Random(7)
    rows = []
    for case in range(1, cases + 1):
        tasks = ["Submit", *draw.sample(["CheckIncome", "CheckCredit"], 2)]
        end = draw.choice(["Approve", "Decline", "Withdraw"])
        if end != "Decline":
            tasks += ["SendOffer"] * draw.choice([1, 1, 2])
        tasks.append(end)
        if draw.random() < 0.1:
            # The second check comes too late.
            tasks[2], tasks[-2] = tasks[-2], tasks[2]
        minute = draw.randrange(600)
        for task in tasks:
            minute += draw.randrange(1, 120)
            rows.append(
                (
                    f"2024-03-01 {minute // 60 % 24:02d}:{minute % 60:02d}:00",
                    case,
                    task,
                    draw.randrange(1, 50) * 1000,
                    minute,
                )
            )
    rows.sort(key=lambda row: row[4])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case_id", "activity", "amount", "ts"])
        writer.writerows(
            (case, task, amount, f"2024-03-{1 + minute // 1440:02d} {stamp[11:]}")
            for stamp, case, task, amount, minute in rows
        )


def shown(title: str, rows: list[dict[str, object]]) -> Table:
    table = Table(title=title)
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


with TemporaryDirectory() as folder:
    log = Path(folder) / "loans.csv"
    write_log(log)
    session = Session()
    session.execute(f"""
        CREATE STREAM loans (case_id BIGINT, activity STRING, amount INT, ts TIMESTAMP) WITH (time = 'ts', format = 'csv', path = '{log}');
        CREATE CONSTRAINTS process ON loans TYPE activity PARTITION BY case_id (
          PRIOR(CheckIncome, SendOffer), PRIOR(CheckCredit, SendOffer), ONCE(Submit), BEGIN(Submit), END(Approve, Decline, Withdraw));
        CREATE QUERY lost AS EVENT SEQ(SendOffer[amount > 20000] o, Withdraw w) FROM loans TYPE activity PARTITION BY case_id FIRST MATCH
          RETURN case_id, o.amount AS offered, w.ts AS withdrawn;
    """)
    session.run(once=True)
    console = Console(width=120)
    console.print(
        shown("Large offers that were not taken", session.queries["lost"].table().drop_columns(["_ts"]).to_pylist())
    )
    console.print(
        shown(
            "Events that break the rules",
            session.dead_letters("loans").select(["case_id", "activity", "_reason"]).to_pylist(),
        )
    )
