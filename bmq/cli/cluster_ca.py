"""`bmq cluster ca`: the authority that makes the certificates by which nodes know each other."""

from __future__ import annotations

import datetime
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from bmq.extras import install_command
from bmq.protocol.errors import BmqError

ca_app = typer.Typer(
    no_args_is_help=True,
    help="The certificates that nodes know each other by: make an authority, issue and renew them.",
)
_AUTHORITY_DAYS: Final = 3_650
_NODE_DAYS: Final = 365
_DAYS_MAX: Final = 36_500

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the new authority")]
Node = Annotated[str, typer.Argument(metavar="NODE", help="A name of the node, such as node-1")]
Authority = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Directory of the authority")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="A name or address that others reach the node by; may be repeated"),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where the certificate goes [DIR/NODE.pem]")]
Days = Annotated[int, typer.Option("--days", min=1, max=_DAYS_MAX, help="How long it is valid")]
Name = Annotated[str, typer.Option("--name", metavar="TEXT", help="The authority's name in its certificate")]


class LacksCryptography(BmqError):
    """The package is not installed."""


@ca_app.command("init")
def init(directory: Directory, days: Days = _AUTHORITY_DAYS, name: Name = "bmq cluster") -> None:
    """Make an authority: DIR/ca.pem, which every node trusts, and DIR/ca.key, which stays where it is."""
    _require_cryptography()
    from bmq.cli.node_authority import make_authority

    if not 0 < len(name) <= 64 or not name.isprintable():
        raise typer.BadParameter("it has to have 1 to 64 printable characters", param_hint="--name")
    ends = make_authority(directory, name, days, _now())
    sys.stdout.write(
        f"the authority in {directory} is valid until {ends:%Y-%m-%d}; keep {directory / 'ca.key'} secret\n"
    )


@ca_app.command("issue")
def issue(node: Node, directory: Authority, hosts: Hosts = None, days: Days = _NODE_DAYS, out: Out = None) -> None:
    """Make a node's key and certificate, or renew them. Nodes that run take the new file within five seconds."""
    _require_cryptography()
    from bmq.cli import node_authority

    made = node_authority.issue(directory, node, hosts or (), days, _now(), out)
    verb = "renewed" if made.is_renewed else "issued"
    sys.stdout.write(f"{verb} {made.path} for {', '.join(made.hosts)}, valid until {made.ends:%Y-%m-%d}\n")


def _require_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise LacksCryptography(f"`bmq cluster ca` needs another package: {install_command('ca')}")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
