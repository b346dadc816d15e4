"""Calls to an event loop from other threads."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def call_soon_unless_closed(loop: AbstractEventLoop, callback: Callable[..., Any], *arguments: Any) -> None:
    """From any thread. A closed loop means that the process is ending and nobody listens: then nothing is called."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)
