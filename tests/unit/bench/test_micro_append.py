"""The micro benchmark of appends goes on knowing what a store has to have."""

from __future__ import annotations

import pytest

from bench.micro_append import run

pytestmark = pytest.mark.campaign("unit")


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_every_batch_is_appended(is_idempotent: bool) -> None:
    assert await run(20, 8, 1024, is_idempotent=is_idempotent) > 0
