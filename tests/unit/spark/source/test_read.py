"""What a task reads is what the log has, wherever its records lie: in closed files, through a proxy, or in both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.local_store.store import LocalStore
from bmq.log.names import renamed_path
from bmq.log.origin import DamagedBatch
from bmq.log.store import FileMissing, StoreError
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from bmq.protocol.record_batch import BatchHeader, assemble_batch
from bmq.spark.source import read
from bmq.spark.source.cluster import ClusterAway
from bmq.spark.source.columns import COLUMNS, arrow_schema
from bmq.spark.source.plan import FilePiece, PartitionSnapshot, ProxyPiece, RangeToRead, part, plan
from bmq.spark.source.read import Access, DataLoss, read_range
from bmq.spark.source.snapshot import snapshot_partition
from bmq.spark.source.storage import StoreUnreadable, open_store
from tests.fakes.kafka_proxy import FakeLog, FakeProxy
from tests.support.flagged_batch import flagged_batch
from tests.unit.arrow_records.strategies import RECORDS
from tests.unit.log.owned_log import Owner

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=7)
Row = dict[str, Any]


def access(root: Path | str = "", *, port: int = 0, is_committed: bool = False, **changes: Any) -> Access:
    return replace(
        Access(
            servers=(("127.0.0.1", port),) if port else (),
            root=f"file:{root}" if root else "",
            hdfs_user="",
            client_id="test",
            is_committed=is_committed,
            fail_on_data_loss=True,
            request_timeout_s=5.0,
            poll_timeout_s=5.0,
        ),
        **changes,
    )


def rows_of(wanted: RangeToRead, how: Access, columns: tuple[str, ...] = COLUMNS) -> list[Row]:
    found: list[Row] = []
    for table in read_range(wanted, how, columns):
        table.validate(full=True)
        assert table.schema == arrow_schema(columns)
        found += table.to_pylist()
    return found


def expected_rows(batches: list[bytes]) -> list[Row]:
    """By the plain decoder."""
    found = []
    for batch in batches:
        header = BatchHeader.parse(batch)
        if header.is_control:
            continue
        found += [
            {"key": record.key, "value": record.value, "offset": record.offset, "headers": list(record.headers) or None}
            for record in decode_records(batch, 0)
        ]
    return found


def bare(rows: list[Row]) -> list[Row]:
    """Without what is the same for all; headers as pairs."""
    return [
        {
            "key": row["key"],
            "value": row["value"],
            "offset": row["offset"],
            "headers": None if row["headers"] is None else [(pair["key"], pair["value"]) for pair in row["headers"]],
        }
        for row in rows
    ]


def batch_of(number: int, *, count: int = 3, **fields: Any) -> bytearray:
    records = [Record(b"k%d" % number, b"value-%d-%d" % (number, n), (), 1_000 * number + n) for n in range(count)]
    return flagged_batch(records, **fields)


async def looked_at(root: Path, start: int, end: int, *, is_committed: bool = False) -> PartitionSnapshot:
    store = LocalStore(root, is_root_locked=False)
    try:
        # The owner of these tests has a directory of its own name in place of an id.
        found = await snapshot_partition(
            store,
            "orders",
            "t",  # type: ignore[arg-type]
            0,
            start=start,
            end=end,
            is_committed=is_committed,
            bytes_per_partition=1,
        )
        return replace(found, topic_id=str(TOPIC_ID))
    finally:
        await store.close()


@pytest.fixture
def root() -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        yield Path(directory)


@settings(max_examples=12)
@given(
    batches=st.lists(
        st.tuples(
            st.lists(RECORDS.map(lambda record: record._replace(timestamp_ms=5)), min_size=1, max_size=6),
            st.sampled_from(Compression),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
async def test_closed_segments_are_read_as_they_are(
    batches: list[tuple[list[Record], Compression, bool]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory)
        store = LocalStore(root)
        owner = await Owner(store, 1).start()
        for records, compression, is_last in batches:
            await owner.produce(encode_batch(records, compression=compression))
            if is_last:
                await owner.roll_segment()
        if owner.writer is not None:
            await owner.roll_segment()
        await store.close()
        end = owner.files.end_offset
        first, last = sorted(data.draw(st.tuples(st.integers(0, end), st.integers(0, end))))
        snapshot = await looked_at(root, first, last)
        planned = plan([(snapshot, first, last)], bytes_per_partition=1, min_partitions=data.draw(st.integers(1, 4)))
        assert all(isinstance(piece, FilePiece) for one in planned for piece in one.pieces)
        with pytest.MonkeyPatch.context() as patched:
            # Batches and their headers are cut anywhere, once or many times.
            patched.setattr(read, "CHUNK_BYTES", data.draw(st.sampled_from((read.CHUNK_BYTES, 1, 7, 60, 100, 257))))
            found = [row for one in planned for row in rows_of(one, access(root))]
        expected = [row for row in expected_rows(owner.acknowledged) if first <= row["offset"] < last]
        assert bare(found) == [{**row, "headers": shown(row["headers"])} for row in expected]


def shown(headers: list[tuple[str, bytes | None]] | None) -> list[tuple[str, bytes | None]] | None:
    """Names as Kafka's own consumer shows them: what is no UTF-8 is replaced."""
    if headers is None:
        return None
    return [(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value) for name, value in headers]


async def three_segments(root: Path) -> Owner:
    """Offsets 0 to 26 in two closed segments and an open one, of nine each."""
    store = LocalStore(root)
    owner = await Owner(store, 1).start()
    for number in range(9):
        await owner.produce(batch_of(number, compression=Compression(number % 5)))
        if number in (2, 5):
            await owner.roll_segment()
    await store.close()
    return owner


async def test_closed_by_files_and_open_through_a_proxy(root: Path) -> None:
    owner = await three_segments(root)
    log = FakeLog(owner.acknowledged)
    wanted = part(await looked_at(root, 4, 25), 4, 25)
    assert [type(piece) for piece in wanted.pieces] == [FilePiece, FilePiece, ProxyPiece]
    with FakeProxy(log.answers) as proxy:
        found = rows_of(wanted, access(root, port=proxy.port))
    assert [row["offset"] for row in found] == list(range(4, 25))
    assert [request.topics[0].partitions[0].fetch_offset for request in proxy.requests] == [18, 24]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("orders", 0, 0)}
    assert [row["timestamp"].timestamp() for row in found[:3]] == [1.001, 1.002, 2.0]


async def test_everything_through_proxies(root: Path) -> None:
    owner = await three_segments(root)
    log = FakeLog(owner.acknowledged)
    with FakeProxy(log.answers) as proxy:
        found = rows_of(part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 27), access(port=proxy.port))
    assert bare(found) == expected_rows(owner.acknowledged)


def test_an_answer_of_many_small_batches_is_read_once() -> None:
    """More batches than a scan finds at once, with more rows than a table takes."""
    batch = bytes(encode_batch([Record(None, b"v", (), 5)] * 5))
    count = 80_000
    log = np.tile(np.frombuffer(batch, np.uint8), (count, 1))
    log[:, :8] = (5 * np.arange(count)).astype(">i8").view(np.uint8).reshape(count, 8)

    def fetch(request: FetchRequest) -> FetchResponse:
        wanted = request.topics[0].partitions[0]
        found = PartitionData(partition_index=wanted.partition, high_watermark=5 * count, log_start_offset=0)
        found.records = log[wanted.fetch_offset // 5 :].tobytes()[: wanted.partition_max_bytes]
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[found])])

    wanted = part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 5 * count)
    with FakeProxy({ApiKey.FETCH: fetch}) as proxy:
        tables = read_range(wanted, access(port=proxy.port), ("offset",))
        found = np.concatenate([table.column("offset").to_numpy() for table in tables])
    assert (found == np.arange(5 * count)).all()


async def test_columns_alone(root: Path) -> None:
    await three_segments(root)
    wanted = part(await looked_at(root, 0, 18), 0, 18)
    assert [row["offset"] for row in rows_of(wanted, access(root), ("offset",))] == list(range(18))
    assert rows_of(wanted, access(root), ("partition", "topic")) == [{"partition": 0, "topic": "orders"}] * 18
    assert rows_of(wanted, access(root), ("timestampType", "key"))[17] == {"timestampType": 0, "key": b"k5"}


async def test_a_directory_that_was_sealed_since(root: Path) -> None:
    await three_segments(root)
    wanted = part(await looked_at(root, 0, 18), 0, 18)
    (root / "topics/t/0/00000001.open").rename(root / "topics/t/0/00000001")
    assert len(rows_of(wanted, access(root))) == 18
    piece = wanted.pieces[0]
    assert isinstance(piece, FilePiece) and renamed_path(renamed_path(piece.path)) == piece.path


async def test_a_deleted_segment_is_asked_of_a_proxy_and_what_is_gone_there_is_a_loss(root: Path) -> None:
    owner = await three_segments(root)
    snapshot = await looked_at(root, 0, 18)
    wanted = part(snapshot, 0, 18)
    shutil.rmtree(root / "topics/t/0/00000001.open")
    log = FakeLog(owner.acknowledged)
    with FakeProxy(log.answers) as proxy:
        assert len(rows_of(wanted, access(root, port=proxy.port))) == 18
        log.log_start_offset = 11
        with pytest.raises(DataLoss, match=r"orders-0: offsets 0 to 8 were deleted .* begins at offset 11 now"):
            rows_of(wanted, access(root, port=proxy.port))
        found = rows_of(wanted, access(root, port=proxy.port, fail_on_data_loss=False))
    assert [row["offset"] for row in found] == list(range(11, 18))


async def test_damage_names_the_place(root: Path) -> None:
    await three_segments(root)
    wanted = part(await looked_at(root, 0, 18), 0, 18)
    piece = wanted.pieces[1]
    assert isinstance(piece, FilePiece)
    path = root / piece.path
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    with pytest.raises(DamagedBatch, match=rf"orders-0 at offset 15, {piece.path} at \d+: .*checksum"):
        rows_of(wanted, access(root))


async def test_an_unknown_codec_names_the_place() -> None:
    batch = BatchHeader.parse(batch_of(0))
    log = FakeLog([bytes(assemble_batch(batch._replace(attributes=5), bytes(10)))])
    wanted = part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 3)
    with FakeProxy(log.answers) as proxy, pytest.raises(DamagedBatch, match=r"orders-0 at offset 0, .*codec"):
        rows_of(wanted, access(port=proxy.port))


async def test_a_segment_that_was_cut_names_the_place(root: Path) -> None:
    await three_segments(root)
    wanted = part(await looked_at(root, 0, 18), 0, 18)
    piece = wanted.pieces[1]
    assert isinstance(piece, FilePiece)
    path = root / piece.path
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size - 3)
    with pytest.raises((DamagedBatch, StoreError), match=r"orders-0 at offset \d+, "):
        rows_of(wanted, access(root))


class QuickTime:
    """Each look at the clock is a second later, so that waits end without limits that a busy machine meets in requests as well."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        self._now_s += 1
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


async def test_a_proxy_that_has_nothing_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.spark.source.read.time", QuickTime())
    log = FakeLog([bytes(batch_of(0))])
    wanted = part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 9)
    with FakeProxy(log.answers) as proxy, pytest.raises(ClusterAway, match=r"no proxy has offset 3"):
        rows_of(wanted, access(port=proxy.port))


async def test_a_topic_that_was_deleted_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.spark.source.read.time", QuickTime())
    log = FakeLog([bytes(batch_of(0))])
    wanted = part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 9)

    def deleted(request: FetchRequest) -> FetchResponse:
        found = log.fetch(request)
        found.responses[0].partitions[0].error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return found

    with FakeProxy({**log.answers, ApiKey.FETCH: deleted}) as proxy:
        how = access(port=proxy.port)
        with pytest.raises(DataLoss, match=r"orders-0: offsets 0 to 8 were deleted .* no orders-0 any more"):
            rows_of(wanted, how)
        assert rows_of(wanted, replace(how, fail_on_data_loss=False)) == []


async def test_a_cluster_that_is_away() -> None:
    with FakeProxy({}) as proxy:
        pass
    wanted = part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 9)
    with pytest.raises(ClusterAway, match=rf"the cluster at 127.0.0.1:{proxy.port} does not answer FETCH"):
        rows_of(wanted, access(port=proxy.port, poll_timeout_s=0.1))


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["write", "write", "plain", "commit", "abort"])), max_size=25
)


@settings(max_examples=25)
@given(steps=STEPS, rolls=st.sets(st.integers(0, 25)), data=st.data())
async def test_only_committed_records(steps: list[tuple[int, str]], rolls: set[int], data: st.DataObject) -> None:
    """Transactions that reach from closed segments into what is open, whoever knows their end."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        store = LocalStore(root)
        owner = await Owner(store, 1).start()
        open_at: dict[int, list[int]] = {}
        committed: list[int] = []
        aborted: list[tuple[int, int, int]] = []
        for number, (producer_id, step) in enumerate(steps):
            if step in ("commit", "abort"):
                control = ControlType.COMMIT if step == "commit" else ControlType.ABORT
                marker = encode_end_transaction_marker(
                    EndTransactionMarker(control, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=0
                )
                offset = await owner.produce(marker)
                records = open_at.pop(producer_id, [])
                if step == "commit":
                    committed += records
                elif records:
                    aborted.append((producer_id, records[0], offset))
            else:
                in_transaction = step == "write"
                if not in_transaction and producer_id in open_at:
                    continue
                fields = (
                    {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": -1} if in_transaction else {}
                )
                offset = await owner.produce(batch_of(number, count=2, is_transactional=in_transaction, **fields))
                (open_at.setdefault(producer_id, []) if in_transaction else committed).extend((offset, offset + 1))
            if number in rolls:
                await owner.roll_segment()
        await store.close()
        stable = min((records[0] for records in open_at.values()), default=owner.files.end_offset)
        first, last = sorted(data.draw(st.tuples(st.integers(0, stable), st.integers(0, stable))))
        snapshot = await looked_at(root, first, last, is_committed=True)
        planned = plan([(snapshot, first, last)], bytes_per_partition=1, min_partitions=data.draw(st.integers(1, 4)))
        log = FakeLog(owner.acknowledged, aborted=aborted, batches_max=data.draw(st.integers(1, 4)))
        with FakeProxy(log.answers) as proxy:
            how = access(root, port=proxy.port, is_committed=True)
            found = [row["offset"] for one in planned for row in rows_of(one, how, ("offset",))]
        assert found == sorted(offset for offset in committed if first <= offset < last)


async def test_a_transaction_that_is_open_where_the_closed_files_end_may_have_been_aborted(root: Path) -> None:
    """Its records lie in closed files, whose end is no last stable offset; the abort is in the open segment."""
    store = LocalStore(root)
    owner = await Owner(store, 1).start()
    await owner.produce(batch_of(0, count=2))
    in_transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": -1, "is_transactional": True}
    first = await owner.produce(batch_of(1, count=2, **in_transaction))
    await owner.produce(batch_of(2, count=2))
    await owner.roll_segment()
    marker = encode_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp_ms=0
    )
    last = await owner.produce(marker)
    await owner.produce(batch_of(3, count=2))
    await store.close()
    snapshot = await looked_at(root, 0, 9, is_committed=True)
    assert snapshot.decided_offset == first
    wanted = part(snapshot, 0, 9)
    assert [(type(piece), piece.first_offset) for piece in wanted.pieces] == [(FilePiece, 0), (ProxyPiece, first)]
    log = FakeLog(owner.acknowledged, aborted=[(7, first, last)])
    with FakeProxy(log.answers) as proxy:
        found = rows_of(wanted, access(root, port=proxy.port, is_committed=True), ("offset",))
    assert [row["offset"] for row in found] == [0, 1, 4, 5, 7, 8]


@pytest.mark.parametrize("reads", [0, 1, 3])
async def test_a_file_that_is_deleted_while_it_is_read_is_gone_on_with_behind_what_was_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    owner = await three_segments(root)
    wanted = part(await looked_at(root, 0, 9), 0, 9)
    read_file, left = read._read, reads

    async def until_deleted(*given: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise FileMissing("deleted by retention")
        return await read_file(*given)

    monkeypatch.setattr(read, "_read", until_deleted)
    monkeypatch.setattr(read, "CHUNK_BYTES", 100)
    with FakeProxy(FakeLog(owner.acknowledged).answers) as proxy:
        found = rows_of(wanted, access(root, port=proxy.port), ("offset",))
        assert [row["offset"] for row in found] == list(range(9)), "each once"
        asked = [request.topics[0].partitions[0].fetch_offset for request in proxy.requests]
        assert (asked[0] > 0) == (reads > 1), "what the file gave is not read again"


def test_a_store_that_is_not_here() -> None:
    with pytest.raises(StoreUnreadable, match=r"is not on this machine: name the store with the option bmq.root"):
        open_store("/nowhere/at/all", None)  # type: ignore[arg-type]
    with pytest.raises(StoreUnreadable, match=r"bmq.root is 's3://bucket/x': it is hdfs://"):
        open_store("s3://bucket/x", None)  # type: ignore[arg-type]
    with pytest.raises(StoreUnreadable, match=r"bmq.root: .* an HDFS store is written hdfs://"):
        open_store("hdfs:bmq", None)  # type: ignore[arg-type]


def test_headers_are_null_when_there_are_none() -> None:
    batches = [encode_batch([Record(b"k", None, (("a", None),), 5), Record(None, b"v", (), 6)])]
    log = FakeLog([bytes(batch) for batch in batches])
    with FakeProxy(log.answers) as proxy:
        (table,) = read_range(
            part(PartitionSnapshot("orders", str(TOPIC_ID), 0), 0, 2), access(port=proxy.port), ("headers", "value")
        )
    assert table.to_pylist() == [
        {"headers": [{"key": "a", "value": None}], "value": None},
        {"headers": None, "value": b"v"},
    ]
    assert isinstance(table, pa.RecordBatch)
