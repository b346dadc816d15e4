"""Notes how long a traced batch is with the owner of its partition, and tells the owner to continue the trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bmq.protocol.hot_produce import with_trace
from bmq.protocol.wire import Buffer
from bmq.tracing.trace import Kind, Span

Answered = Callable[[bytearray | None], None]


def traced_forward(
    append: Span, owner: int, body: Sequence[Buffer], answered: Answered
) -> tuple[Sequence[Buffer], Answered]:
    """(the request's body with the trace's context, what takes the answer)."""
    loop = asyncio.get_running_loop()
    span = append.begin("forward", loop.time(), {"bmq.owner": owner}, Kind.CLIENT)

    def note(frame: bytearray | None) -> None:
        span.end(loop.time(), error="the connection was lost" if frame is None else None)
        answered(frame)

    return with_trace(body, span.context.encode()), note
