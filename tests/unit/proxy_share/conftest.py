from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.proxy_share.share_client import ShareCluster


@pytest.fixture
async def cluster() -> AsyncIterator[ShareCluster]:
    made = ShareCluster()
    yield made
    await made.close()
