from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.internode_client.scripted_peer import ScriptedPeer, scripted_peer


@pytest.fixture
async def peer() -> AsyncIterator[ScriptedPeer]:
    async with scripted_peer() as made:
        yield made
