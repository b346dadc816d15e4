"""Options that commands of a Kafka cluster share, and the connection they make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from bmq.cli.profiles import in_force, kafka_settings_for
from bmq.cli.terminal import is_terminal
from bmq.extras import install_command
from bmq.protocol.errors import BmqError

if TYPE_CHECKING:
    from bmq.cli.kafka.client import KafkaClient

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
SETTINGS_BYTES_MAX: Final = 1 << 20

Bootstrap = Annotated[
    str, typer.Option("--bootstrap", envvar="BMQ_BOOTSTRAP", metavar="HOST:PORT[,…]", help="Servers of the cluster")
]
KafkaSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka",
        envvar="BMQ_KAFKA",
        metavar="NAME=VALUE|@FILE",
        help="A setting of librdkafka's clients, or a file of them",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table")]
AsCsv = Annotated[bool, typer.Option("--csv", help="CSV instead of a table")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation")]


class MissingLibrary(BmqError):
    """A library that the command needs is not installed."""


def connected(
    context: typer.Context, bootstrap: str, kafka: Sequence[str] | None, *, answer_wait_s: float | None = None
) -> KafkaClient:
    """A client of the cluster. Tests hand in theirs as the context's object.

    Raises MissingLibrary, KafkaUnreachable, KafkaFailed, typer.BadParameter.
    """
    settings = cluster_settings(bootstrap, kafka)
    if context.obj is not None:
        return cast("KafkaClient", context.obj)
    try:
        from bmq.cli.kafka.client import KafkaClient
    except ModuleNotFoundError as error:
        raise missing_library(error) from error
    return KafkaClient(settings) if answer_wait_s is None else KafkaClient(settings, answer_wait_s=answer_wait_s)


def missing_library(error: ModuleNotFoundError) -> BmqError:
    """One sentence; raises the error again when a module of our own is missing."""
    if error.name is None or error.name.partition(".")[0] == "bmq":
        raise error
    return MissingLibrary(f"this command needs {error.name.replace('_', '-')}: {install_command('cli')}")


def cluster_settings(bootstrap: str, given: Sequence[str] | None) -> dict[str, str]:
    """A client's settings: `bootstrap`, and those of `--kafka` over those that the profile has for these servers.

    Raises typer.BadParameter, ProfilesUnusable.
    """
    found = in_force()
    files = found.profile.kafka_files if found is not None and found.profile.bootstrap == bootstrap else ()
    of_files = kafka_settings([f"@{name}" for name in files])
    return {**kafka_settings_for(bootstrap), **of_files, **kafka_settings(given), "bootstrap.servers": bootstrap}


def kafka_settings(given: Sequence[str] | None) -> dict[str, str]:
    """Settings of `--kafka`, later ones over earlier ones. Raises typer.BadParameter.

    `@FILE`: a setting on each line, without empty ones and comments (#). Passwords belong there: others see a command line.
    """
    found: dict[str, str] = {}
    for each in given or ():
        lines = _file_lines(each[1:]) if each.startswith("@") else [each]
        found |= settings_of([line for line in lines if line and not line.startswith("#")], "--kafka")
    return found


def _file_lines(name: str) -> list[str]:
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(SETTINGS_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = (
            "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
        )
        raise typer.BadParameter(f"cannot read {name}: {reason}", param_hint="--kafka") from error
    if len(text) > SETTINGS_BYTES_MAX:
        raise typer.BadParameter(f"{name} has more than {SETTINGS_BYTES_MAX} bytes", param_hint="--kafka")
    return [line.strip() for line in text.splitlines()]


def settings_of(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """`NAME=VALUE` of each. Raises typer.BadParameter."""
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=option)
        found[name] = value
    return found


def confirm(*, is_sure: bool, question: str = "Go ahead?") -> None:
    """Ask on a terminal; elsewhere nobody could answer, so go ahead. Raises typer.Abort for a no."""
    if not is_sure and is_terminal():
        typer.confirm(question, abort=True)
