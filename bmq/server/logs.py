"""Formats log lines on standard error: text on a terminal, one JSON object a line otherwise."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

if TYPE_CHECKING:
    from bmq.proxy.log_levels import LogLevels


_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class NamedLogger(structlog.WriteLogger):
    """Writes lines. It knows its name."""

    def __init__(self, file: TextIO, name: str) -> None:
        super().__init__(file)
        self.name = name


def configure_logs(
    level: str,
    form: str,
    note: structlog.typing.Processor | None = None,
    keep: Callable[[str], None] | None = None,
) -> LogLevels:
    """Set up logs. `level`: debug to error. `form`: auto, text or json. `note`: sees every line first, hidden ones too.
    `keep`: is handed each line that is written, as JSON. Returns the levels of the loggers, which may be altered at any time.
    """
    from bmq.proxy.log_levels import LogLevels

    levels = LogLevels(level)
    show_logs(levels.is_shown, level, form, note, keep)
    return levels


def without_controls(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor that shows terminal control characters as \\xNN. Values may have names that clients chose."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    return event


def keeping_lines(keep: Callable[[str], None]) -> structlog.typing.Processor:
    """A processor behind the renderer of JSON: hands on its lines."""

    def keep_line(logger: Any, method: str, line: Any) -> Any:
        keep(line)
        return line

    return keep_line


def keeping_events(keep: Callable[[str], None]) -> structlog.typing.Processor:
    """A processor before a renderer of text, behind that of tracebacks: renders a copy as JSON."""
    as_json = structlog.processors.JSONRenderer()

    def keep_event(logger: Any, method: str, event: Any) -> Any:
        keep(str(as_json(logger, method, dict(event))))
        return event

    return keep_event


def show_logs(
    is_shown: Callable[[str, int], bool],
    level: str,
    form: str,
    note: structlog.typing.Processor | None = None,
    keep: Callable[[str], None] | None = None,
) -> None:
    """As `configure_logs`. `is_shown`: whether a line of a logger of this name is written, by its level's number."""

    numbers = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}

    def drop_hidden(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if not is_shown(getattr(logger, "name", ""), numbers.get(method, logging.CRITICAL)):
            raise structlog.DropEvent
        return event

    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    # The default shows the local variables of each frame: passwords, records.
    as_lines = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: structlog.typing.Processor = as_lines if as_text else structlog.processors.JSONRenderer()
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            *(() if note is None else (note,)),
            drop_hidden,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            *((keeping_events(keep),) if keep is not None and as_text else ()),
            *((without_controls,) if as_text else ()),
            renderer,
            *((keeping_lines(keep),) if keep is not None and not as_text else ()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *names: NamedLogger(sys.stderr, names[0] if names else ""),
        cache_logger_on_first_use=True,
    )
    # Libraries (asyncio, uvicorn) log through the standard module: show only what an operator should see.
    logging.basicConfig(
        stream=sys.stderr, level=max(threshold, logging.WARNING), format="%(levelname)s %(name)s: %(message)s"
    )
