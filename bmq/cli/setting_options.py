"""Options that stand for settings of a server's process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from bmq.server.listener_settings import is_secret
from bmq.server.renamed_settings import warning_of
from bmq.server.settings import LoadedSettings, load_settings

Listen = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address for Kafka clients [127.0.0.1:9092]")]
Rest = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address of REST and /metrics [127.0.0.1:8080]")]
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="Directory of the embedded store [./data]")]
StoreUrl = Annotated[str | None, typer.Option(metavar="URL", help="Store of the log [the embedded store]")]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML file [./bmq.toml if there]")]


HIDDEN: Final = "(hidden)"


class ShownSetting(NamedTuple):
    """`value`: as a text, HIDDEN for a secret. `source`: where it came from."""

    name: str
    value: str
    source: str


def shown_settings(loaded: LoadedSettings) -> list[ShownSetting]:
    """Every effective setting, secrets blanked."""
    return [
        ShownSetting(
            one.name, HIDDEN if is_secret(one.name) else "" if one.value is None else str(one.value), one.source
        )
        for one in loaded.origins
    ]


def load(config: Path | None, **given: Any) -> LoadedSettings:
    """The settings with these options in them; None: not given. Raises BmqError.

    Writes a line to standard error for each setting under the name of the last release.
    """
    loaded = load_settings({name: value for name, value in given.items() if value is not None}, config)
    for name in loaded.old_names:
        typer.echo(warning_of(name), err=True)
    return loaded
