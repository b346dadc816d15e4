"""Requests and responses of newer versions over WireClient, by kio's schemas: not bmq's own codec."""

from __future__ import annotations

import io
from typing import Any, TypeVar

from kio.serial import entity_reader, entity_writer

from testing.wire import WireClient

T = TypeVar("T")


def call(client: WireClient, request: Any, response_type: type[T]) -> T:
    """Send a message of a flexible version and parse its response."""
    assert request.__flexible__ and response_type.__flexible__, "WireClient speaks the others"  # type: ignore[attr-defined]
    body = io.BytesIO()
    entity_writer(type(request))(body, request)
    # Headers of flexible versions end with tagged fields: none.
    reader = client.call(request.__api_key__, request.__version__, b"\0" + body.getvalue())
    assert reader.one(">B") == 0
    answer = reader.raw(reader.left)
    response, end = entity_reader(response_type)(answer, 0)  # type: ignore[type-var]
    assert end == len(answer), "bytes are left behind the response"
    return response
