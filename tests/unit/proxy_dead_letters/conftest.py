from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.proxy_dead_letters.letter_cluster import LetterCluster


@pytest.fixture
async def cluster() -> AsyncIterator[LetterCluster]:
    made = LetterCluster()
    yield made
    await made.close()
