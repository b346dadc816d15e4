"""How log lines look: text on a terminal, one JSON object a line otherwise; always on standard error."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: str, form: str) -> None:
    """`level`: debug … error. `form`: auto, text or json."""
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    )
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if as_text else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries (asyncio, uvicorn) log through the standard module: show only what an operator should see.
    logging.basicConfig(
        stream=sys.stderr, level=max(threshold, logging.WARNING), format="%(levelname)s %(name)s: %(message)s"
    )
