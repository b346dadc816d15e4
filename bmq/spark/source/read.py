"""Reads a task's range on an executor: bytes from the store or a proxy, read ahead of the decoder; yields Spark's rows.

A file missing from its planned path is looked for under its epoch's other directory name; if it is gone, its offsets
are read through a proxy. Records that no proxy has are lost: an error, or with failOnDataLoss=false a warning.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

import pyarrow as pa
import structlog

from bmq.arrow_records.batch_headers import BatchFilter, Headers, markers, scan
from bmq.arrow_records.decoder import OFFSET_MAX, Decoded, Limits, Selection, decode
from bmq.arrow_records.isolation import CommittedOnly, aborted_in
from bmq.hdfs.delegation_token import DelegationToken
from bmq.log.batch_bodies import Scratch
from bmq.log.names import renamed_path
from bmq.log.origin import DamagedBatch, Origin
from bmq.log.store import Buffer, FileMissing, SegmentStore, StoreError
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX
from bmq.protocol.errors import BmqError
from bmq.spark.source.cluster import ClusterAway, ClusterClient, Fetched, OffsetGone, UnknownTopic
from bmq.spark.source.columns import RowMaker, layout
from bmq.spark.source.loop_thread import LoopThread
from bmq.spark.source.options import EARLIEST
from bmq.spark.source.plan import FilePiece, ProxyPiece, RangeToRead
from bmq.spark.source.storage import open_store

CHUNK_BYTES: Final = 4 << 20
CHUNKS_AHEAD: Final = 3
"""Chunks being read while one is decoded."""
TABLE_BYTES: Final = 16 << 20
TABLE_ROWS: Final = 1 << 18
FETCH_BYTES: Final = 8 << 20
BEHIND_MAX_S: Final = 5.0
"""How long a proxy may lack an offset or a topic that another one knows."""
PAUSE_S: Final = 0.1

_log = structlog.get_logger("bmq.spark")


class DataLoss(BmqError):
    """Records to be read are gone. The message says which, and what can be done."""


@dataclass(frozen=True, slots=True)
class Access:
    """How an executor accesses the cluster. Pickled.

    `servers`: proxies. `root`: the store, empty to read everything through proxies. `poll_timeout_s`: how long a proxy
    may return nothing at an offset that it should have. `hdfs_token`: for a kerberized HDFS.
    """

    servers: tuple[tuple[str, int], ...]
    root: str
    hdfs_user: str
    client_id: str
    is_committed: bool
    fail_on_data_loss: bool
    request_timeout_s: float
    poll_timeout_s: float
    hdfs_token: DelegationToken | None = None


def read_range(wanted: RangeToRead, access: Access, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The records of a range in batches of some MB, in offset order.

    Raises DataLoss, DamagedBatch, ClusterAway, UnknownTopic, StoreUnreadable, StoreError.
    """
    with LoopThread() as loop:
        reader = _RangeReader(wanted, access, columns, loop)
        try:
            yield from reader.rows()
        finally:
            loop.run(reader.close())


class _RangeReader:
    def __init__(self, wanted: RangeToRead, access: Access, columns: tuple[str, ...], loop: LoopThread) -> None:
        self._wanted = wanted
        self._access = access
        self._loop = loop
        self._layout = layout(columns)
        self._maker = RowMaker(columns, wanted.topic, wanted.partition)
        self._scratch = Scratch()
        self._random = Random()
        self._store: SegmentStore | None = None
        self._cluster: ClusterClient | None = None
        self._leaves_out: BatchFilter = CommittedOnly(wanted.aborted) if access.is_committed else markers

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
        if self._cluster is not None:
            await self._cluster.close()

    def rows(self) -> Iterator[pa.RecordBatch]:
        for piece in self._wanted.pieces:
            tables = self._of_file(piece) if isinstance(piece, FilePiece) else self._of_proxy(piece)
            for table in tables:
                if table.num_rows:
                    yield self._maker.rows(table)

    # --- from the store

    def _of_file(self, piece: FilePiece) -> Iterator[pa.RecordBatch]:
        """The piece's records; if the file is lost, the rest through a proxy."""
        next_offset = piece.first_offset
        position = piece.position  # in the file, of the first byte not decoded yet
        rest: Buffer = b""  # of a batch that continues in the next chunk
        missing_bytes = 0  # to complete that batch
        try:
            for chunk in self._chunks(piece):
                place = 0
                while place < len(chunk):
                    # Copy only the one batch that is cut, not the whole chunk in which it ends.
                    is_cut = len(rest) > 0
                    more = memoryview(chunk)[place : place + missing_bytes] if is_cut else b""
                    data, begin = (b"".join((rest, more)), 0) if is_cut else (chunk, place)
                    origin = self._origin(piece, position - begin)
                    decoded = self._decode(data, origin, begin, next_offset, piece.end_offset, self._leaves_out)
                    if decoded.next_offset is not None:
                        next_offset = max(next_offset, decoded.next_offset)
                    yield decoded.table
                    position += decoded.end - begin
                    if is_cut:
                        place += len(more)
                        rest, missing_bytes = data[decoded.end :], decoded.missing_bytes
                    elif decoded.end == begin:
                        rest, missing_bytes = bytes(memoryview(chunk)[begin:]), decoded.missing_bytes
                        place = len(chunk)
                    else:
                        place = decoded.end
        except FileMissing as error:
            _log.warning("segment_gone", path=piece.path, offset=next_offset, reason=str(error))
            yield from self._of_proxy(ProxyPiece(next_offset, piece.end_offset))
            return
        except StoreError as error:
            raise type(error)(
                f"{self._wanted.topic}-{self._wanted.partition} at offset {next_offset}, {piece.path}: {error}"
            ) from error
        if len(rest):
            raise DamagedBatch(
                self._origin(piece, position), 0, None, f"a record batch is cut {len(rest)} bytes behind its start"
            )

    def _origin(self, piece: FilePiece, position: int) -> Origin:
        return Origin(self._wanted.topic, self._wanted.partition, piece.path, position)

    def _chunks(self, piece: FilePiece) -> Iterator[Buffer]:
        """The piece's bytes, read ahead. Raises the store's errors."""
        waiting: deque[Future[Buffer]] = deque()
        position = piece.position
        path = piece.path
        store = self._opened_store()
        while position < piece.end_position or waiting:
            while position < piece.end_position and len(waiting) <= CHUNKS_AHEAD:
                length_bytes = min(CHUNK_BYTES, piece.end_position - position)
                waiting.append(self._loop.start(_read(store, path, piece.file_id, position, length_bytes)))
                position += length_bytes
            yield waiting.popleft().result()

    def _opened_store(self) -> SegmentStore:
        if self._store is None:
            access, random = self._access, self._random

            async def opened() -> SegmentStore:
                return open_store(access.root, random, hdfs_user=access.hdfs_user, token=access.hdfs_token)

            self._store = self._loop.run(opened())
        return self._store

    # --- through a proxy

    def _of_proxy(self, piece: ProxyPiece) -> Iterator[pa.RecordBatch]:
        offset = piece.first_offset
        if offset >= piece.end_offset:
            return
        cluster = self._opened_cluster()
        origin = Origin(self._wanted.topic, self._wanted.partition, "a proxy's answer")
        coming = self._fetch(cluster, offset)
        waiting_since_s = time.monotonic()
        while True:
            try:
                fetched = coming.result()
            except (OffsetGone, UnknownTopic) as error:
                if isinstance(error, OffsetGone) and (left := self._earliest(cluster)) > offset:
                    self._lost(offset, min(left, piece.end_offset), f"the log begins at offset {left} now")
                    offset = left
                elif time.monotonic() - waiting_since_s > min(BEHIND_MAX_S, self._access.poll_timeout_s):
                    self._lost(offset, piece.end_offset, str(error))
                    return
                else:
                    time.sleep(PAUSE_S)  # this proxy may be behind the one that gave the range
                if offset >= piece.end_offset:
                    return
                coming = self._fetch(cluster, offset)
                continue
            data = memoryview(fetched.records).toreadonly()
            found = scan(
                data, origin, 0, rows_max=OFFSET_MAX, bytes_max=OFFSET_MAX, batch_bytes_max=DECOMPRESSED_BYTES_MAX
            )
            if not len(found.headers):
                if time.monotonic() - waiting_since_s > self._access.poll_timeout_s:
                    raise ClusterAway(
                        f"{origin.topic}-{origin.partition}: no proxy has offset {offset}, though the log goes on to"
                        f" {piece.end_offset}, for {self._access.poll_timeout_s:g} s"
                    )
                coming = self._fetch(cluster, offset)
                continue
            last = found.headers[-1]
            first, offset = offset, int(last["base_offset"]) + int(last["last_offset_delta"]) + 1
            if offset < piece.end_offset:
                coming = self._fetch(cluster, offset)  # while these are decoded
            leaves_out = self._filter_of(fetched, found.headers)
            place = 0
            while place < found.end:
                decoded = self._decode(data, origin, place, first, piece.end_offset, leaves_out)
                yield decoded.table
                if decoded.end == place:
                    break
                place = decoded.end
            if offset >= piece.end_offset:
                return
            waiting_since_s = time.monotonic()

    def _filter_of(self, fetched: Fetched, headers: Headers) -> BatchFilter:
        return CommittedOnly(aborted_in(fetched.aborted, headers)) if self._access.is_committed else markers

    def _fetch(self, cluster: ClusterClient, offset: int) -> Future[Fetched]:
        wanted = self._wanted
        return self._loop.start(
            cluster.fetch(
                wanted.topic,
                UUID(wanted.topic_id),
                wanted.partition,
                offset,
                length_bytes_max=FETCH_BYTES,
                is_committed=self._access.is_committed,
            )
        )

    def _earliest(self, cluster: ClusterClient) -> int:
        """The log's present start; -1 if the topic is gone."""
        one = (self._wanted.topic, self._wanted.partition)
        try:
            return self._loop.run(cluster.offsets({one: EARLIEST}, is_committed=False))[one]
        except UnknownTopic:
            return -1

    def _lost(self, first_offset: int, end_offset: int, why: str) -> None:
        require_no_loss(
            f"{self._wanted.topic}-{self._wanted.partition}: offsets {first_offset} to {end_offset - 1} were deleted"
            f" before they were read: {why}",
            self._access.fail_on_data_loss,
        )

    def _opened_cluster(self) -> ClusterClient:
        if self._cluster is None:
            access, servers, random = self._access, list(self._access.servers), self._random
            # Spread tasks over the proxies.
            random.shuffle(servers)

            async def opened() -> ClusterClient:
                return ClusterClient(
                    servers,
                    access.client_id,
                    random,
                    timeout_s=access.request_timeout_s,
                    patience_s=access.poll_timeout_s,
                )

            self._cluster = self._loop.run(opened())
        return self._cluster

    def _decode(
        self, data: Buffer, origin: Origin, place: int, from_offset: int, to_offset: int, leaves_out: BatchFilter
    ) -> Decoded:
        return decode(
            data,
            origin,
            self._layout,
            Selection(from_offset, to_offset, leaves_out),
            Limits(TABLE_ROWS, TABLE_BYTES),
            place=place,
            scratch=self._scratch,
        )


def require_no_loss(sentence: str, fail_on_data_loss: bool) -> None:
    """Raises DataLoss, or only logs it."""
    if fail_on_data_loss:
        raise DataLoss(f"{sentence}; with failOnDataLoss=false the read goes on with what is left")
    _log.warning("data_loss", what=sentence)


async def _read(store: SegmentStore, path: str, file_id: int, position: int, length_bytes: int) -> Buffer:
    """Read from the planned path, or from the file's path before or after sealing."""
    try:
        return await store.read(path, file_id=file_id, position=position, length_bytes=length_bytes)
    except FileMissing:
        return await store.read(renamed_path(path), file_id=file_id, position=position, length_bytes=length_bytes)
