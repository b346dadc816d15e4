"""Lease recovery, the slow last resort: the NameNode revokes the lease and has a DataNode recover the block.

It takes one to three seconds with healthy DataNodes, because the command waits for a heartbeat. The old writer's packets are
acknowledged until its connections are closed, shortly before the file shows as closed. Those bytes are in the file.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.namenode import NameNode
from bmq.log.store import StorageUnavailable

POLL_S: Final = 0.02
EAGER_S: Final = 5.0  # as long as a recovery takes when all is well; then ask less often
PATIENT_POLL_S: Final = 0.25
REPEAT_S: Final = 10.0  # a recovery whose DataNode died has to be asked for again


async def recover_lease(path: str, *, own_holder: str, namenode: NameNode, config: HdfsConfig) -> None:
    """Recover the lease and wait until the file is closed.

    Raises FileMissing; StorageUnavailable after `config.lease_recovery_max_s`.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    asked_s = start_s
    if await namenode.recover_lease(path, holder=own_holder):
        return
    while not await namenode.is_file_closed(path):
        now_s = loop.time()
        if now_s - start_s > config.lease_recovery_max_s:
            raise StorageUnavailable(
                f"{path} is still open {config.lease_recovery_max_s:g} s after its lease recovery was asked for"
            )
        if now_s - asked_s > REPEAT_S:
            asked_s = now_s
            if await namenode.recover_lease(path, holder=own_holder):
                return
        await asyncio.sleep(POLL_S if now_s - start_s < EAGER_S else PATIENT_POLL_S)
