"""The first steps of every server: choose a unique holder name, and open the cluster's root in the store."""

from __future__ import annotations

from random import Random

from bmq.log.root import ClusterRoot, cluster_id_from, open_root
from bmq.log.store import SegmentStore
from bmq.server.settings import Settings
from bmq.server.start_retry import StartRetry, is_store_silent


def new_holder(node_id: int, rng: Random) -> str:
    """A new holder name: it names this process incarnation and is the holder of every file that the process writes."""
    return f"node-{node_id}-{rng.getrandbits(64):016x}"


async def open_own_root(
    store: SegmentStore, settings: Settings, holder: str, rng: Random, retry: StartRetry
) -> ClusterRoot:
    """Open the root. An empty root is initialised. Raises RootError, StoreError."""
    return await retry.until_done(
        lambda: open_root(
            store,
            holder=holder,
            new_cluster_id=cluster_id_from(rng.randbytes(16)),
            expected_cluster_id=settings.cluster_id or None,
        ),
        may_pass=is_store_silent,
    )
