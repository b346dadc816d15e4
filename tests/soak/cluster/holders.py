"""Who wrote a name into which epoch's directory of a partition, as the files on HDFS have it."""

from __future__ import annotations

import re
from random import Random
from typing import Final

from bmq.broker.claim import owners_in
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.names import parse_epoch_directory
from testing.hdfs import USER
from tests.soak.cluster.site import Site

# Process incarnations are named after their nodes.
_HOLDER: Final = re.compile(r"node-(\d+)-[0-9a-f]{16}")


async def holders_of(site: Site, topic_id: str, partition: int) -> dict[int, int]:
    """Node id by leader epoch. Raises StoreError."""
    config = HdfsConfig(namenodes=site.hdfs.namenodes, root=site.cluster.root, user=USER)
    store = await HdfsStore.open(config, Random(0))
    try:
        found = {}
        directory = f"topics/{topic_id}/{partition}"
        for each in await store.list_directory(directory):
            epoch = parse_epoch_directory(each.name)
            if not epoch:
                continue
            for holder in owners_in(await store.list_directory(f"{directory}/{each.name}")):
                if node := _HOLDER.fullmatch(holder):
                    found[epoch[0]] = int(node[1])
        return found
    finally:
        await store.close()
