"""`bmq transaction`: what is open under a transactional id, and ending it by hand, through the REST address of any node."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import quoted
from bmq.cli.kafka.options import AsJson
from bmq.cli.kafka.rows import printable
from bmq.cli.rest_options import DEFAULT_URL, Rest, with_login
from bmq.cli.terminal import print_json

transaction_app = typer.Typer(no_args_is_help=True, help="Open transactions that applications are asked about.")

TransactionalId = Annotated[str, typer.Argument(metavar="ID", help="A transactional id")]
Started = Annotated[
    int, typer.Option("--started", min=0, metavar="MS", help="Which one: when it began, as `show` says")
]


@transaction_app.callback()
def transactions() -> None:
    """Open transactions that applications are asked about."""


@transaction_app.command("show")
@with_login
def show(transactional_id: TransactionalId, rest: Rest = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show the transaction that is open under this id, or the last one."""
    with ClusterClient(rest) as client:
        found = client.get(_path(transactional_id))
    if as_json:
        print_json(found)
        return
    producer = f"{found['producer_id']}, epoch {found['producer_epoch']}"
    for name, said in (
        ("id", printable(found["transactional_id"])),
        ("state", found["state"]),
        ("producer", producer),
        ("started", found["started_ms"]),
        ("timeout", f"{found['timeout_ms']} ms"),
    ):
        sys.stdout.write(f"{name:8}  {said}\n")


@transaction_app.command("commit")
@with_login
def commit(
    transactional_id: TransactionalId, started: Started, rest: Rest = DEFAULT_URL, as_json: AsJson = False
) -> None:
    """Commit the open transaction of an id that opted in to checks."""
    _end(transactional_id, started, "commit", rest, as_json=as_json)


@transaction_app.command("rollback")
@with_login
def roll_back(
    transactional_id: TransactionalId, started: Started, rest: Rest = DEFAULT_URL, as_json: AsJson = False
) -> None:
    """Abort the open transaction of an id that opted in to checks."""
    _end(transactional_id, started, "rollback", rest, as_json=as_json)


def _end(transactional_id: str, started_ms: int, outcome: str, rest: str, *, as_json: bool) -> None:
    path = _path(transactional_id)
    with ClusterClient(rest) as client:
        found = client.get(path)
        name = {
            "producer_id": found["producer_id"],
            "producer_epoch": found["producer_epoch"],
            "started_ms": started_ms,
        }
        ended: Any = client.change("POST", f"{path}/{outcome}", name)
    if as_json:
        print_json(ended)
        return
    done = "committed" if ended["is_committed"] else "rolled back"
    sys.stdout.write(printable(f"{transactional_id}: {done}") + "\n")


def _path(transactional_id: str) -> str:
    return f"/v1/transactions/{quoted(transactional_id)}"
