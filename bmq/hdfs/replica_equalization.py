"""Makes the replicas of one block equally long, after a new generation stamp has cut off their writer."""

from __future__ import annotations

import asyncio
from asyncio import Future
from typing import Final

from bmq.hdfs.block_stream import BlockStream
from bmq.hdfs.blocks import LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.reader import BlockReader
from bmq.hdfs.replica_states import Agreement, pieces
from bmq.log.store import CorruptFile, StorageUnavailable, WriterBroken


class SourceFailed(WriterBroken):
    """The longest replica cannot be read."""


PIECE_BYTES_MAX: Final = 1024 * 1024  # of one read and send; two pieces are in memory at a time


async def equalize(
    stream: BlockStream, located: LocatedBlock, agreement: Agreement, *, reader: BlockReader, config: HdfsConfig
) -> None:
    """Fill every node of `stream` up to the agreed length from its longest replica; `located` has the new stamp.

    Nodes skip what they have. Raises SourceFailed (also when it is silent for `config.ack_timeout_s`), or the stream's
    failure.
    """
    end = agreement.length_bytes
    if agreement.resend_from is None:
        await stream.send_at(end, b"")
        return
    under_way: Future[int] | None = None
    for position, length_bytes in pieces(
        agreement.resend_from, end, piece_bytes_max=PIECE_BYTES_MAX, chunk_bytes=config.checksum_chunk_bytes
    ):
        try:
            async with asyncio.timeout(config.ack_timeout_s):
                data = await reader.read_replica(
                    located, agreement.source, position=position, length_bytes=length_bytes, visible_bytes=end
                )
        except (TimeoutError, StorageUnavailable, CorruptFile) as error:
            raise SourceFailed(f"the longest replica, on {agreement.source.transfer}, fails: {error!r}") from error
        if under_way is not None:
            await under_way
        under_way = stream.send_at(position, data)
    if under_way is not None:
        await under_way
