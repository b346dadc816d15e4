"""`bmq man`: manual pages, made from the help of the commands."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from bmq.cli.man_page import man_page, page_name
from bmq.protocol.errors import BmqError

man_app = typer.Typer()


class PagesNotWritten(BmqError):
    """The directory cannot be written; one sentence."""


@man_app.command("man")
def man(
    context: typer.Context,
    command: Annotated[str, typer.Argument(metavar="[COMMAND]", help="A command or group; none: bmq itself")] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write all pages there, as NAME.1")] = None,
) -> None:
    """Print a manual page: bmq man topic | man -l -. With --out write all of them, for share/man/man1."""
    program: Any = context.find_root().command
    release = version("bmq")
    names = sorted(program.list_commands(context))
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{page_name(())}.1").write_text(man_page(program, (), release))
            for name in names:
                (out / f"{page_name((name,))}.1").write_text(
                    man_page(program.get_command(context, name), (name,), release)
                )
        except OSError as error:
            raise PagesNotWritten(f"{error.filename or out} cannot be written: {error.strerror}") from None
        sys.stdout.write(f"{len(names) + 1} pages are in {out}\n")
        return
    if command and command not in names:
        raise typer.BadParameter(f"there is no command {command!r}", param_hint="COMMAND")
    found = program.get_command(context, command) if command else program
    sys.stdout.write(man_page(found, (command,) if command else (), release))
