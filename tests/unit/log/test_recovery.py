"""Recovery: whatever an owner leaves behind, the next one finds every acknowledged batch, and reads no more than it must."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bmq.local_store.store import LocalStore
from bmq.log.manifest import Cut, Manifest
from bmq.log.names import PartitionPaths
from bmq.log.partition_log import AbortedTransaction
from bmq.log.producer_state import ProducerStates
from bmq.log.recovery import MANIFEST_TRIES_MAX, ManifestNumbersTaken
from bmq.log.segment_index import SegmentIndex
from bmq.log.store import Buffer, FencedWriter, SegmentStore, StorageUnavailable
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader
from tests.fakes.store import FakeStore
from tests.support.given_up import GivenUp
from tests.unit.log.owned_log import NOW_MS, PARTITION, CountingStore, Owner, batch_of

pytestmark = pytest.mark.unit


def path_of(epoch: int, name: str) -> str:
    return f"{PARTITION}/{epoch:08d}/{name}"


def logs_of(store: FakeStore) -> list[str]:
    return sorted(path for path in store.files() if path.endswith(".log"))


async def produced(store: SegmentStore, epoch: int, segments: list[int], *, is_last_open: bool = True) -> Owner:
    """An owner that wrote as many batches of two records as told into each segment; all indexed but an open one."""
    owner = await Owner(store, epoch).start()
    for number, count in enumerate(segments):
        for _ in range(count):
            await owner.produce(batch_of(2))
        if number < len(segments) - 1 or not is_last_open:
            await owner.roll_segment()
    return owner


async def test_a_new_partition_is_empty() -> None:
    owner = await Owner(FakeStore().client("a"), 1).start()
    recovered = owner.recovered
    assert (recovered.log_start_offset, recovered.end_offset) == (0, 0)
    assert recovered.extents == []
    assert recovered.epochs.entries == ((1, 0),)
    assert recovered.unnamed_directories == ()
    assert await owner.read_all() == b""


@given(
    epochs=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=4),
    is_indexed=st.booleans(),
    saves_rebuilt=st.booleans(),
)
async def test_every_owner_finds_what_all_before_it_wrote(
    epochs: list[list[int]], is_indexed: bool, saves_rebuilt: bool
) -> None:
    fake = FakeStore()
    acknowledged: list[bytes] = []
    starts: list[int] = []
    for epoch, segments in enumerate(epochs):
        owner = await Owner(fake.client(f"c{epoch}"), epoch, saves_rebuilt=saves_rebuilt).start()
        starts.append(owner.files.end_offset)
        assert await owner.read_all() == b"".join(acknowledged)
        for count in segments:
            await owner.open_segment()
            for _ in range(count):
                await owner.produce(batch_of(2))
            await owner.roll_segment(is_indexed=is_indexed) if count else owner.files.end_segment(owner.roll)
        acknowledged += owner.acknowledged
    last = await Owner(fake.client("last"), len(epochs)).start()
    assert await last.read_all() == b"".join(acknowledged)
    assert last.recovered.end_offset == 2 * len(acknowledged)
    for epoch, start in enumerate(starts[1:]):
        assert last.files.epoch_end_offset(epoch, last.files.end_offset)[1] == start
    assert last.recovered.cuts == ()


async def test_only_what_lies_behind_the_last_checkpoint_is_read() -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [50, 50, 7])
    store = CountingStore(fake.client("b"))
    new = await Owner(store, 2).start()  # type: ignore[arg-type]
    unindexed_bytes = len(fake.files()[path_of(1, "00000002.log")])
    assert unindexed_bytes == sum(map(len, old.acknowledged[-7:]))
    assert store.read_bytes == new.recovered.scanned_bytes == unindexed_bytes
    assert new.recovered.scanned_segments == 1
    assert await new.read_all() == b"".join(old.acknowledged)
    # What was found out is kept: the next one reads nothing.
    again = CountingStore(fake.client("c"))
    newer = await Owner(again, 3).start()  # type: ignore[arg-type]
    assert again.read_bytes == 0
    assert newer.recovered.end_offset == 214


async def test_an_idle_partition_takes_few_calls() -> None:
    fake = FakeStore()
    await produced(fake.client("a"), 1, [3], is_last_open=False)
    await Owner(fake.client("b"), 2).start()
    store = CountingStore(fake.client("c"))
    owner = Owner(store, 3)  # type: ignore[arg-type]
    await owner.claim()
    store.calls.clear()
    await owner.recover()
    assert store.calls == ["list_directory", "read_file"]
    # Epoch 2 wrote nothing and rebuilt nothing: only its manifest is of use, until ours is durable.
    assert owner.recovered.unnamed_directories == (f"{PARTITION}/00000002",)
    await owner.begin()
    assert store.calls == ["list_directory", "read_file", "write_file"]


async def test_directories_of_which_nothing_is_kept_are_named() -> None:
    fake = FakeStore()
    await Owner(fake.client("a"), 1).start()
    await produced(fake.client("b"), 2, [3], is_last_open=False)
    await Owner(fake.client("c"), 3).start()
    owner = await Owner(fake.client("d"), 4).start()
    assert set(owner.recovered.unnamed_directories) == {f"{PARTITION}/00000001", f"{PARTITION}/00000003"}
    for path in owner.recovered.unnamed_directories:
        await owner.store.delete(path, recursive=True)
    newest = await Owner(fake.client("e"), 5).start()
    assert newest.recovered.end_offset == 6
    assert newest.recovered.unnamed_directories == (f"{PARTITION}/00000004",)


def batch_end(acknowledged: list[bytes]) -> int:
    return sum(map(len, acknowledged))


async def test_a_tail_torn_at_any_byte_is_cut() -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [2, 3])
    path = logs_of(fake)[-1]
    whole = fake.files()[path]
    last_bytes = len(old.acknowledged[-1])
    for cut in range(last_bytes):
        scratch = FakeStore()
        for name, data in fake.files().items():
            scratch.put_file(name, data, is_open=name == path, holder="owner-1")
        scratch.truncate_file(path, len(whole) - last_bytes + cut)
        # Indexes name file ids, and these files are new: so both segments are read again.
        owner = await Owner(scratch.client("b"), 2).start()
        assert owner.recovered.end_offset == 8
        assert await owner.read_all() == b"".join(old.acknowledged[:-1])
        expected = (Cut(1, 1, len(whole) - last_bytes),) if cut else ()
        assert owner.recovered.cuts == expected
        await owner.produce(batch_of(2))
        assert await owner.read_all() == b"".join([*old.acknowledged[:-1], *owner.acknowledged])


@settings(max_examples=30)
@given(data=st.data())
async def test_a_damaged_batch_ends_the_log(data: st.DataObject) -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [5])
    path = logs_of(fake)[0]
    number = data.draw(st.integers(0, 4))
    start = batch_end(old.acknowledged[:number])
    position = data.draw(st.integers(0, 15) | st.integers(0, len(old.acknowledged[number]) - 1))
    fake.flip_bit(path, start + position)
    owner = await Owner(fake.client("b"), 2).start()
    assert owner.recovered.end_offset == 2 * number
    assert await owner.read_all() == b"".join(old.acknowledged[:number])
    assert owner.recovered.cuts == (Cut(1, 0, start),)


async def test_the_log_goes_on_behind_a_torn_tail_that_its_owner_wrote_again() -> None:
    fake = FakeStore()
    old = await Owner(fake.client("a"), 1).start()
    await old.produce(batch_of(2))
    assert old.builder is not None
    fake.extend_file(old.paths.segment(1, 0), bytes(batch_of(2))[:50])
    await old.files.record_cut(0, old.builder.valid_bytes)
    await old.roll_segment(is_indexed=False)
    await old.produce(batch_of(2))
    owner = await Owner(fake.client("b"), 2).start()
    assert owner.recovered.end_offset == 4
    assert await owner.read_all() == b"".join(old.acknowledged)
    assert owner.recovered.cuts == (Cut(1, 0, len(old.acknowledged[0])),)


async def test_what_its_owner_cut_is_not_read_though_it_is_whole() -> None:
    fake = FakeStore()
    old = await Owner(fake.client("a"), 1).start()
    await old.produce(batch_of(2))
    assert old.builder is not None
    fake.extend_file(old.paths.segment(1, 0), bytes(batch_of(2, base_offset=2, leader_epoch=1)))
    await old.files.record_cut(0, old.builder.valid_bytes)
    owner = await Owner(fake.client("b"), 2).start()
    assert owner.recovered.end_offset == 2
    assert await owner.read_all() == old.acknowledged[0]


async def test_nothing_is_read_across_a_gap() -> None:
    fake = FakeStore()
    old = await Owner(fake.client("a"), 1).start()
    for _ in range(3):
        await old.produce(batch_of(2))
        await old.roll_segment(is_indexed=False)
    await old.store.delete(old.paths.segment(1, 1))
    owner = await Owner(fake.client("b"), 2).start()
    assert owner.recovered.end_offset == 2
    assert await owner.read_all() == old.acknowledged[0]
    assert owner.recovered.cuts == (Cut(1, 2, 0),)
    # What was cut stays cut, for later owners too.
    await owner.produce(batch_of(1))
    later = await Owner(fake.client("c"), 3).start()
    assert await later.read_all() == old.acknowledged[0] + owner.acknowledged[0]


async def test_a_gap_before_an_indexed_segment_counts_as_well() -> None:
    fake = FakeStore()
    await produced(fake.client("a"), 1, [2, 2, 2], is_last_open=False)
    await fake.client("x").delete(f"{PARTITION}/00000001.open/00000001.log")
    owner = await Owner(fake.client("b"), 2).start()
    assert owner.recovered.end_offset == 4
    assert [cut.roll for cut in owner.recovered.cuts] == [2]


@pytest.mark.parametrize("damage", ["missing", "flipped", "other file", "longer segment"])
async def test_an_index_that_is_not_trusted_is_rebuilt_in_the_own_directory(damage: str) -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [4, 4], is_last_open=False)
    directory = f"{PARTITION}/00000001.open"
    index_path, log_path = f"{directory}/00000001.index", f"{directory}/00000001.log"
    if damage == "missing":
        await fake.client("x").delete(index_path)
    elif damage == "flipped":
        fake.flip_bit(index_path, 70)
    elif damage == "other file":
        data = fake.files()[log_path]
        await fake.client("x").delete(log_path)
        fake.put_file(log_path, data)
    else:
        fake.extend_file(log_path, b"torn")
    owner = await Owner(fake.client("b"), 2).start()
    assert await owner.read_all() == b"".join(old.acknowledged)
    assert owner.recovered.scanned_segments == 1
    assert [extent.index_epoch for extent in owner.recovered.extents] == [1, 2]
    rebuilt = f"{PARTITION}/00000002.open/00000001-00000001.index"
    assert rebuilt in fake.files()
    location = await owner.files.locate(13)
    assert (location.base_offset, location.end_offset) == (8, 16)
    assert location.valid_bytes == batch_end(old.acknowledged[4:])


async def test_an_epoch_that_never_came_to_write_is_passed_over() -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [2])
    claimer = Owner(fake.client("b"), 2)
    await claimer.claim()
    half = Manifest(2, 0, 0, 4).encode()[:20]
    fake.put_file(f"{claimer.paths.own}/manifest.00000000", half, is_open=True, holder=claimer.holder)
    fake.put_file(f"{claimer.paths.own}/00000000.log", b"", is_open=True, holder=claimer.holder)
    owner = await Owner(fake.client("c"), 3).start()
    assert await owner.read_all() == b"".join(old.acknowledged)


async def test_a_file_that_is_still_open_is_no_end() -> None:
    fake = FakeStore()
    await produced(fake.client("a"), 1, [2])
    owner = Owner(fake.client("b"), 2)
    await owner.claim()
    fake.put_file(path_of(1, "00000005.log"), b"x", is_open=True)
    with pytest.raises(StorageUnavailable, match=r"00000005\.log"):
        await owner.recover()


async def test_an_owner_whose_directory_is_gone_is_fenced() -> None:
    fake = FakeStore()
    await produced(fake.client("a"), 1, [2])
    late = Owner(fake.client("b"), 2)
    await late.claim()
    await Owner(fake.client("c"), 3).start()
    with pytest.raises(FencedWriter):
        await late.start_behind_the_claim()
    recovered = Owner(fake.client("d"), 4)
    await recovered.claim()
    await recovered.recover()
    await fake.client("x").rename(recovered.paths.own, recovered.paths.own_sealed)
    with pytest.raises(FencedWriter):
        await recovered.begin()


async def test_recovery_may_be_tried_again() -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [3])
    owner = Owner(fake.client("b"), 2)
    await owner.claim()
    first = await owner.recover()
    second = await owner.recover()
    assert first.extents == second.extents
    await owner.begin()
    assert await owner.read_all() == b"".join(old.acknowledged)


async def test_records_lost_below_the_log_start_leave_an_empty_log() -> None:
    fake = FakeStore()
    old = await produced(fake.client("a"), 1, [2])
    await old.files.advance_log_start(3)
    fake.truncate_file(logs_of(fake)[0], 10)
    owner = await Owner(fake.client("b"), 2).start()
    assert (owner.recovered.log_start_offset, owner.recovered.end_offset) == (3, 3)
    assert owner.recovered.extents == []
    assert await owner.produce(batch_of()) == 3


def idempotent(sequence: int, *, is_transactional: bool = False, producer: int = 7) -> bytearray:
    return batch_of(
        1, producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=is_transactional
    )


def ending(
    producer: int = 7, *, epoch: int = 0, kind: ControlType = ControlType.ABORT, coordinator_epoch: int = 3
) -> bytearray:
    marker = EndTransactionMarker(kind, coordinator_epoch)
    return encode_end_transaction_marker(marker, producer_id=producer, producer_epoch=epoch, timestamp_ms=NOW_MS)


def entries_of(states: ProducerStates) -> dict[int, object]:
    """Without the last timestamp, which a snapshot has only if a batch or a marker of a transaction came last."""
    return {producer: entry[:5] for producer, entry in states.entries()}


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(
                ["data", "transaction", "abort", "commit", "bump", "roll", "roll unindexed", "takeover", "delete"]
            ),
            st.integers(0, 2),
        ),
        max_size=40,
    ),
    is_large=st.booleans(),
)
@example([("transaction", 0), ("abort", 0), ("roll", 0)] * 7 + [("delete", 1), ("takeover", 0), ("delete", 2)], True)
async def test_producers_and_aborted_transactions_come_back(steps: list[tuple[str, int]], is_large: bool) -> None:
    """Transactions that begin segments and owners before they end, or before what is retained; "bump": with a new epoch.

    `is_large`: the manifest has no room for producers, nor for more than one aborted transaction.
    """
    with pytest.MonkeyPatch.context() as patch:
        if is_large:
            patch.setattr("bmq.log.recovery.PRODUCERS_INLINE_BYTES_MAX", 0)
            patch.setattr("bmq.log.partition_files.PRODUCERS_INLINE_BYTES_MAX", 0)
            patch.setattr("bmq.log.aborted_file_writer.FILE_ENTRIES_MAX", 2)
        fake = FakeStore()
        leader_epoch = 1
        epochs, sequences, is_open = [0] * 3, [0] * 3, [False] * 3
        owner = await Owner(fake.client("c1"), leader_epoch).start()
        for step, producer in [*steps, ("takeover", 0)]:
            if step in ("data", "transaction"):
                is_open[producer] |= step == "transaction"
                batch = batch_of(
                    1,
                    producer_id=producer,
                    producer_epoch=epochs[producer],
                    base_sequence=sequences[producer],
                    is_transactional=is_open[producer],
                )
                assert owner.files.producers.check(BatchHeader.parse(batch)) is None
                await owner.produce(batch)
                sequences[producer] += 1
            elif step in ("abort", "commit", "bump"):
                if step == "bump":
                    epochs[producer] += 1
                    sequences[producer] = 0
                kind = ControlType.COMMIT if step == "commit" else ControlType.ABORT
                await owner.produce(ending(producer, epoch=epochs[producer], kind=kind, coordinator_epoch=leader_epoch))
                is_open[producer] = False
            elif step.startswith("roll") and owner.writer is not None:
                await owner.roll_segment(is_indexed=step == "roll")
            elif step == "delete":
                await owner.files.advance_log_start(owner.files.end_offset * (producer + 1) // 4)
            elif step == "takeover":
                leader_epoch += 1
                old, owner = owner, await Owner(fake.client(f"c{leader_epoch}"), leader_epoch).start()
                end = old.files.end_offset
                assert owner.files.end_offset == end
                assert entries_of(owner.files.producers) == entries_of(old.files.producers)
                assert list(owner.files.producers.aborted) == list(old.files.producers.aborted)
                stable = owner.files.producers.last_stable_offset(end)
                assert stable == old.files.producers.last_stable_offset(end)


async def test_producers_come_back_though_the_index_that_had_them_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.log.recovery.PRODUCERS_INLINE_BYTES_MAX", 0)
    monkeypatch.setattr("bmq.log.partition_files.PRODUCERS_INLINE_BYTES_MAX", 0)
    fake = FakeStore()
    old = await Owner(fake.client("a"), 1).start()
    for sequence in range(0, 9, 3):
        await old.produce(idempotent(sequence, is_transactional=True))
        await old.produce(idempotent(sequence + 1, is_transactional=True))
        await old.produce(ending())
        await old.roll_segment()
    await Owner(fake.client("b"), 2).start()
    fake.flip_bit(path_of(1, "00000002.index"), 50)
    await fake.client("x").delete(path_of(1, "00000001.index"))
    owner = await Owner(fake.client("c"), 3).start()
    assert owner.recovered.scanned_segments == 2
    assert entries_of(owner.files.producers) == entries_of(old.files.producers)
    assert owner.files.producers.aborted.overlapping(0, 9) == [AbortedTransaction(7, first) for first in (0, 3, 6)]
    assert [extent.index_epoch for extent in owner.recovered.extents] == [1, 3, 3]


@pytest.mark.parametrize("inline_bytes_max", [0, 16 * 1024])
async def test_an_owner_that_died_before_it_saved_what_it_rebuilt(
    monkeypatch: pytest.MonkeyPatch, inline_bytes_max: int
) -> None:
    """Its manifest names indexes that never came to be: nothing is lost, and the next one saves them."""
    monkeypatch.setattr("bmq.log.recovery.PRODUCERS_INLINE_BYTES_MAX", inline_bytes_max)
    monkeypatch.setattr("bmq.log.partition_files.PRODUCERS_INLINE_BYTES_MAX", inline_bytes_max)
    fake = FakeStore()
    first = await Owner(fake.client("a"), 1).start()
    for sequence in range(4):
        await first.produce(idempotent(sequence))
    second = await Owner(fake.client("b"), 2, saves_rebuilt=False).start()
    assert not any(path.endswith(".index") for path in fake.files())
    assert await second.read_all() == b"".join(first.acknowledged)
    await second.produce(idempotent(4))
    third = await Owner(fake.client("c"), 3).start()
    assert await third.read_all() == b"".join([*first.acknowledged, *second.acknowledged])
    assert entries_of(third.files.producers) == entries_of(second.files.producers)
    fourth = await Owner(fake.client("d"), 4).start()
    assert fourth.recovered.scanned_bytes == 0
    assert entries_of(fourth.files.producers) == entries_of(second.files.producers)


async def test_on_real_files(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    old = await produced(store, 1, [3, 2])
    assert old.writer is not None
    old.writer.abandon()
    segment = tmp_path / old.paths.segment(1, 1)
    segment.write_bytes(segment.read_bytes() + bytes(batch_of(2, base_offset=10))[:77])
    owner = await Owner(store, 2).start()
    assert await owner.read_all() == b"".join(old.acknowledged)
    assert owner.recovered.cuts == (Cut(1, 1, batch_end(old.acknowledged[3:])),)
    await owner.produce(batch_of(2))
    await owner.roll_segment()
    again = await Owner(store, 3).start()
    assert await again.read_all() == b"".join([*old.acknowledged, *owner.acknowledged])
    assert again.recovered.scanned_bytes == 0
    assert PartitionPaths(PARTITION, 3).own == again.paths.own
    await store.close()


async def with_an_index_to_save(fake: FakeStore) -> tuple[Owner, SegmentIndex, str]:
    """An owner whose first segment has ended, its index, and the path of that."""
    owner = await produced(fake.client("a"), 1, [3], is_last_open=True)
    assert owner.writer is not None
    owner.files.end_segment(0)
    index = await owner.files.seal_segment(0, await owner.writer.close())
    return owner, index, owner.paths.index(1, 0, 1)


@pytest.mark.parametrize("method", ["write_file", "rename"])
async def test_what_is_left_of_an_index_changes_nothing_when_it_is_carried_out_late(method: str) -> None:
    fake = FakeStore()
    owner, index, path = await with_an_index_to_save(fake)
    given_up = GivenUp(owner.store, method, ".index")
    with pytest.raises(StorageUnavailable):
        await owner.files.save_index(index)
    await owner.files.save_index(index)
    assert fake.files()[path] == index.encode()
    await given_up.carry_out()
    assert fake.files()[path] == index.encode()


class FailingWrites:
    """The next `write_file` ends half-way, and the removal of the file gets no answer; `clean_up` carries that out."""

    def __init__(self, fake: FakeStore, store: SegmentStore) -> None:
        self.fake = fake
        self.path: str | None = None
        self._write_file = store.write_file
        store.write_file = self  # type: ignore[method-assign]

    async def __call__(self, path: str, data: Buffer, *, holder: str) -> None:
        if self.path is not None:
            await self._write_file(path, data, holder=holder)
            return
        self.path = path
        raise StorageUnavailable("the clean-up got no answer")

    def clean_up(self) -> None:
        assert self.path is not None
        self.fake.namespace.delete(self.path, recursive=False)


async def test_a_late_clean_up_does_not_take_the_index_that_was_written_since() -> None:
    fake = FakeStore()
    owner, index, path = await with_an_index_to_save(fake)
    writes = FailingWrites(fake, owner.store)
    with pytest.raises(StorageUnavailable):
        await owner.files.save_index(index)
    await owner.files.save_index(index)
    writes.clean_up()
    assert fake.files()[path] == index.encode()


async def test_an_index_whose_renaming_was_carried_out_although_it_failed_is_accepted() -> None:
    fake = FakeStore()
    owner, index, path = await with_an_index_to_save(fake)
    given_up = GivenUp(owner.store, "rename", ".index")
    with pytest.raises(StorageUnavailable):
        await owner.files.save_index(index)
    await given_up.carry_out()
    await owner.files.save_index(index)
    assert [name for name in fake.files() if ".index" in name] == [path]
    successor = await Owner(fake.client("b"), 2).start()
    assert successor.recovered.scanned_bytes == 0


async def test_a_late_clean_up_does_not_take_the_manifest_that_was_written_since() -> None:
    """What it removes is the number of the try that failed, and the next try took the next number."""
    fake = FakeStore()
    owner = await produced(fake.client("a"), 1, [1, 1, 1])
    await owner.files.write_manifest()
    writes = FailingWrites(fake, owner.store)
    with pytest.raises(StorageUnavailable):
        await owner.files.advance_log_start(2)
    await owner.files.advance_log_start(2)
    writes.clean_up()
    successor = await Owner(fake.client("b"), 2).start()
    assert successor.recovered.log_start_offset == 2


async def test_manifests_of_earlier_tries_are_removed_with_the_older_ones() -> None:
    fake = FakeStore()
    owner = await produced(fake.client("a"), 1, [1, 1, 1])
    given_up = GivenUp(owner.store, "write_file", "manifest", count=3)
    for _ in range(3):
        with pytest.raises(StorageUnavailable):
            await owner.files.advance_log_start(2)
    await given_up.carry_out()
    for _ in range(2):
        await owner.files.write_manifest()
    assert sorted(path[-8:] for path in fake.files() if "manifest" in path) == ["00000003", "00000004"]


async def test_a_roll_without_a_batch_is_no_gap_and_a_missing_segment_is_one() -> None:
    fake = FakeStore()
    owner = await produced(fake.client("a"), 1, [1], is_last_open=False)
    owner.roll += 2  # 1 was never there, 2 is there and empty
    fake.put_file(owner.paths.segment(1, 2), b"", is_open=True, holder=owner.holder)
    await owner.produce(batch_of(1))
    await owner.roll_segment()
    assert sorted(path[-12:] for path in fake.files() if path.endswith(".log")) == [
        "00000000.log",
        "00000002.log",
        "00000003.log",
    ]
    second = await Owner(fake.client("b"), 2).start()
    assert await second.read_all() == b"".join(owner.acknowledged)
    for count in (1, 2, 3):
        await second.produce(batch_of(count))
        await second.roll_segment(is_indexed=False)
    fake.namespace.delete(second.paths.segment(2, 1), recursive=False)
    third = await Owner(fake.client("c"), 3).start()
    assert await third.read_all() == b"".join([*owner.acknowledged, second.acknowledged[0]])
    assert [cut.valid_bytes for cut in third.recovered.cuts if (cut.leader_epoch, cut.roll) == (2, 2)] == [0]


async def test_numbers_that_are_taken_do_not_stop_the_manifests_for_ever() -> None:
    fake = FakeStore()
    owner = await produced(fake.client("a"), 1, [1, 1, 1])
    for number in range(1, 1 + MANIFEST_TRIES_MAX):
        fake.put_file(f"{PARTITION}/00000001.open/manifest.{number:08d}", b"", is_open=True)
    with pytest.raises(ManifestNumbersTaken):
        await owner.files.write_manifest()
    await owner.files.write_manifest()
