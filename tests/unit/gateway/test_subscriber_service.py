"""How much one subscriber gets at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bmq.gateway.settings import MIB, GatewaySettings
from bmq.gateway.shared_bounds import SharedBounds
from bmq.gateway.subscriber_service import _Stream

pytestmark = pytest.mark.unit


async def test_deliveries_are_smaller_while_others_hold_most_of_the_room() -> None:
    shared = SharedBounds(GatewaySettings(deliveries_bytes_max=64 * MIB, delivery_bytes_max=MIB))
    calls: Any = SimpleNamespace(metrics=None)
    principal: Any = SimpleNamespace(shared=shared, settings=shared.settings)
    stream = _Stream(calls, principal, None)
    assert stream._delivery_bytes_max() == MIB
    await shared.deliveries.take(56 * MIB)
    assert stream._delivery_bytes_max() == MIB // 2
    await shared.deliveries.take(8 * MIB)
    assert stream._delivery_bytes_max() == 1  # a poll hands out one record at least
