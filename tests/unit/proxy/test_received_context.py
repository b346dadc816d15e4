"""The context of a request keeps all that is known of its client when the time and the frame are added."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from bmq.protocol.apis import ALL_APIS, ApiKey, Route
from bmq.protocol.request_context import Received, RequestContext
from bmq.proxy.request_answers import with_received

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("api_key", [ApiKey.SHARE_FETCH, ApiKey.SHARE_GROUP_HEARTBEAT])
def test_all_other_fields_stay(api_key: ApiKey) -> None:
    values: dict[str, Any] = {field.name: object() for field in fields(RequestContext)}
    api, frame, request = ALL_APIS[api_key], bytearray(b"frame"), object()
    context = with_received(RequestContext(**values), api, frame, request, 7.5)
    received = None if api.route is Route.LOCAL else Received(frame, request)
    expected = {**values, "received_s": 7.5, "received": received}
    assert {field.name: getattr(context, field.name) for field in fields(RequestContext)} == expected
