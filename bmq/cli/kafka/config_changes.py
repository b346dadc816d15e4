"""Changes of configs as users write them, and as a plan shows them. Pure. Source: KIP-339."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bmq.cli.kafka.model import Config, ConfigChange, KafkaFailed
from bmq.protocol.error_codes import ErrorCode

_ASSIGNMENT: Final = re.compile(r"([A-Za-z0-9._-]*[A-Za-z0-9._])(=|\+=|-=)(.*)", re.ASCII | re.DOTALL)
_OPERATIONS: Final[Mapping[str, str]] = {"=": "set", "+=": "append", "-=": "subtract"}
_HIDDEN: Final = "(hidden)"
_NOTHING: Final = "(none)"


class BadChange(KafkaFailed):
    """A change that cannot be meant."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.INVALID_CONFIG)


def parse_changes(assignments: Iterable[str], deletions: Iterable[str] = ()) -> list[ConfigChange]:
    """`NAME=VALUE` sets, `NAME+=VALUE` and `NAME-=VALUE` add to a list and take from it; `deletions`: back to defaults.

    Raises BadChange, also for a name that is changed twice.
    """
    changes: list[ConfigChange] = []
    for text in assignments:
        match = _ASSIGNMENT.fullmatch(text)
        if match is None:
            raise BadChange(f"{text!r} is not NAME=VALUE, NAME+=VALUE or NAME-=VALUE")
        name, sign, value = match.groups()
        changes.append(ConfigChange(name, _OPERATIONS[sign], value))  # type: ignore[arg-type]
    changes += [ConfigChange(name, "delete", None) for name in deletions]
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise BadChange(f"{change.name} is changed twice")
        seen.add(change.name)
    return changes


def plan_lines(changes: Sequence[ConfigChange], present: Sequence[Config]) -> list[str]:
    """A line for each change: what there is, and what there would be."""
    by_name = {config.name: config for config in present}
    return [_line(change, by_name.get(change.name)) for change in changes]


def _line(change: ConfigChange, config: Config | None) -> str:
    before = _shown(config)
    match change.operation:
        case "set":
            return (
                f"{change.name}: {before} -> {_HIDDEN if config is not None and config.is_sensitive else change.value}"
            )
        case "delete":
            return f"{change.name}: {before} -> what it is without this setting"
        case "append":
            return f"{change.name}: {before}, and {change.value}"
        case "subtract":
            return f"{change.name}: {before}, without {change.value}"


def _shown(config: Config | None) -> str:
    if config is None:
        return _NOTHING
    if config.is_sensitive:
        return _HIDDEN
    value = _NOTHING if config.value is None else config.value or '""'
    return f"{value} (default)" if config.source == "default" else value
