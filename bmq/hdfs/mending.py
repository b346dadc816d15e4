"""An owner closes its own broken block: a DataNode died or hung, so its stream has failed (rules 7, 9 and 10).

The NameNode accepts the owner's name even after a newer owner has taken the file. So each try begins with a check, and the
whole ends with one: the path, in the owner's directory, must still name its file. A newer owner renames that directory before
it touches anything.
"""

from __future__ import annotations

import structlog

from bmq.hdfs.file_takeover import AcknowledgedBytesGone, Closed, ClosingTools, FileClosing
from bmq.hdfs.writer import BrokenSegment
from bmq.log.store import FencedWriter, FileMissing

_log = structlog.get_logger("bmq.hdfs")


class SegmentMender:
    """Mends any number of segments, each independently."""

    def __init__(self, tools: ClosingTools) -> None:
        self._tools = tools

    async def mend(self, broken: BrokenSegment) -> tuple[int, int]:
        """Close the file at a length that every remaining replica has. Returns that length and the number of replicas.

        The stream must have been aborted. May be called again, also when the file was closed by an earlier call that failed
        later. A length below `broken.acked_bytes` means that acknowledged bytes are gone; then the file stays open, as it was
        found. Raises FencedWriter when the path no longer names the file; StorageUnavailable when no replica can be used now.
        """
        closing = FileClosing(
            broken.absolute_path,
            holder=broken.holder,
            own_holder=broken.holder,
            tools=self._tools,
            file_id=broken.file_id,
            least_bytes=broken.acked_bytes,
            is_sync=broken.is_synced,
            nodes=broken.located.nodes,
        )
        # `broken.failed` is ignored: a closed connection says nothing about its node, and nodes that hung are known as
        # bad nodes already.
        try:
            closed = await closing.close()
        except FileMissing as error:
            raise FencedWriter(f"{broken.path} is no longer ours: {error}") from error
        except AcknowledgedBytesGone as error:
            _log.error("acknowledged_bytes_gone", path=broken.path, reason=str(error))
            return error.length_bytes, 0
        return closed.length_bytes, await _replicas(closing, closed, broken)


async def _replicas(closing: FileClosing, closed: Closed, broken: BrokenSegment) -> int:
    """How many nodes hold the whole file.

    Right after a close the NameNode may list too few, so if an earlier call or lease recovery closed the file, we ask
    all nodes that had it.
    """
    if closed.nodes or closed.last is None:
        return len(closed.nodes)
    nodes = {node.uuid: node for node in (*broken.located.nodes, *closed.last.nodes)}
    return len(await closing.survey.holders(tuple(nodes.values()), closed.last.block))
