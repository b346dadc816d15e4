"""The contender's side of the line protocol, for contenders written in Python: read a command, answer one JSON line."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

Handler = Callable[..., Awaitable[dict[str, Any]]]


def prepare_process() -> None:
    """As `bmq standalone` does it, so that neither rubbish nor what is logged at leisure is in the figures."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),  # standard output is for answers
    )
    gc.set_threshold(100_000, 20, 100)
    gc.collect()
    gc.freeze()


async def serve(handlers: Mapping[str, Handler]) -> None:
    """Perform commands in order until standard input ends. A failing one is answered with {"error": …}."""
    prepare_process()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    _answer({"ready": True})
    try:
        while line := await reader.readline():
            name, *words = line.decode().split()
            try:
                answer = await handlers[name](*words)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            _answer(answer)
    finally:
        transport.close()


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
