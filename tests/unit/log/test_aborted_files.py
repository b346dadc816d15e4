"""Files of aborted transactions: written once, named by the manifests that follow, replaced by compaction, never lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.aborted_files import (
    FILE_BYTES_MAX,
    FILE_ENTRIES_MAX,
    CorruptAbortedFile,
    decode_file,
    encode_file,
    with_filed_aborts,
)
from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.damage import StateDamaged, accept
from bmq.log.damage_report import report_damage
from bmq.log.manifest import AbortedFile, CorruptManifest, Manifest
from bmq.log.names import is_cleaned
from bmq.log.partition_view import view_partition
from bmq.log.store import StorageUnavailable
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from tests.fakes.store import FakeStore
from tests.unit.broker.world import virtual
from tests.unit.log.owned_log import PARTITION, Owner, batch_of
from tests.unit.log.test_cleaned_extents import PRODUCER, cleaned_of

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.log.aborted_file_writer.FILE_ENTRIES_MAX", 2)


def table(*markers: int) -> AbortedTransactions:
    aborted = AbortedTransactions()
    for marker in markers:
        aborted.add(AbortedEntry(9, marker - 1, marker, marker + 1))
    return aborted


async def owner_of_aborted(fake: FakeStore, count: int, leader_epoch: int = 1) -> Owner:
    """Each in a segment of its own: markers at 1, 3, 5 and so on."""
    owner = await Owner(fake.client(f"c{leader_epoch}"), leader_epoch).start()
    await abort(owner, 0, count)
    return owner


async def abort(owner: Owner, first: int, count: int) -> None:
    for sequence in range(first, first + count):
        await owner.produce(batch_of(1, is_transactional=True, base_sequence=sequence, **PRODUCER))
        marker = EndTransactionMarker(ControlType.ABORT, 1)
        await owner.produce(encode_end_transaction_marker(marker, timestamp_ms=1, **PRODUCER))
        await owner.roll_segment()


def markers_of(owner: Owner) -> list[int]:
    return [entry.last_offset for entry in owner.files.producers.aborted]


def files_of(manifest: Manifest) -> list[tuple[int, int, int]]:
    return [(file.leader_epoch, file.first_marker, file.last_marker) for file in manifest.aborted_files]


async def names_in(owner: Owner, directory: str) -> list[str]:
    return [entry.name for entry in await owner.store.list_directory(directory) if entry.name.startswith("aborted.")]


@given(st.sets(st.integers(1, 10_000), min_size=1, max_size=8), st.data())
def test_round_trip_and_damage(markers: set[int], data: st.DataObject) -> None:
    aborted = table(*sorted(markers))
    file = AbortedFile(1, 0, len(markers), min(markers), max(markers))
    whole = encode_file(aborted)
    assert list(decode_file(whole, file)) == list(aborted)
    damaged = bytearray(whole)
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptAbortedFile):
        decode_file(damaged, file)
    for other in (
        replace(file, count=file.count + 1),
        replace(file, first_marker=0),
        replace(file, last_marker=10_001),
    ):
        with pytest.raises(CorruptAbortedFile):
            decode_file(whole, other)


def test_the_longest_file_is_read() -> None:
    assert len(encode_file(table(*range(1, FILE_ENTRIES_MAX + 1)))) <= FILE_BYTES_MAX


@pytest.mark.parametrize(
    "files",
    [
        (AbortedFile(1, 0, 2, 5, 9), AbortedFile(1, 1, 2, 9, 12)),
        (AbortedFile(1, 0, 0, 5, 9),),
        (AbortedFile(1, 0, 2, 9, 5),),
        (AbortedFile(1, 0, 2, 5, 30),),
    ],
)
def test_files_out_of_order_are_refused(files: tuple[AbortedFile, ...]) -> None:
    with pytest.raises(CorruptManifest):
        Manifest.decode(Manifest(1, 0, 0, 0, aborted=table(30), aborted_files=files).encode())


def test_a_manifest_without_files_is_as_it_was() -> None:
    """Nodes of a release without such files refuse what they do not know."""
    assert b"aborted_files" not in Manifest(1, 0, 0, 0, aborted=table(30)).encode()


async def test_files_are_written_once_and_named_by_all_who_follow() -> None:
    fake = FakeStore()
    owner = await owner_of_aborted(fake, 5)
    await owner.files.write_manifest()
    manifest = owner.files.manifest()
    assert files_of(manifest) == [(1, 1, 3), (1, 5, 7)] and [entry.last_offset for entry in manifest.aborted] == [9]
    await owner.files.write_manifest()
    assert await names_in(owner, owner.paths.own) == ["aborted.00000000", "aborted.00000001"]
    second = await Owner(fake.client("c2"), 2).start()
    assert markers_of(second) == [1, 3, 5, 7, 9]
    assert await names_in(second, second.paths.own) == []
    await abort(second, 5, 1)
    await second.files.write_manifest()
    assert files_of(second.files.manifest()) == [(1, 1, 3), (1, 5, 7), (2, 9, 11)]
    view = await view_partition(fake.client("x"), PARTITION)
    assert view.manifest is not None
    assert [entry.last_offset for entry in view.manifest.aborted] == [1, 3, 5, 7, 9, 11]
    third = await Owner(fake.client("c3"), 3).start()
    assert markers_of(third) == [1, 3, 5, 7, 9, 11]


async def test_retention_drops_a_file_with_the_last_of_its_transactions() -> None:
    fake = FakeStore()
    owner = await owner_of_aborted(fake, 5)
    await owner.files.write_manifest()
    assert not any("aborted" in path for path in await owner.files.advance_log_start(2))
    assert markers_of(owner) == [3, 5, 7, 9]
    assert files_of(owner.files.manifest()) == [(1, 1, 3), (1, 5, 7)]
    second = await Owner(fake.client("c2"), 2).start()
    assert markers_of(second) == [3, 5, 7, 9]
    paths = await second.files.advance_log_start(6)
    assert second.paths.aborted(1, 0) in paths and second.paths.aborted(1, 1) not in paths
    for path in paths:
        await second.store.delete(path)
    third = await Owner(fake.client("c3"), 3).start()
    assert markers_of(third) == [7, 9]
    assert third.paths.epoch(1) in await third.files.advance_log_start(10)
    assert markers_of(third) == [] and files_of(third.files.manifest()) == []


async def test_compaction_replaces_the_file_that_has_a_dropped_marker() -> None:
    fake = FakeStore()
    owner = await owner_of_aborted(fake, 5)
    files = owner.files
    await files.write_manifest()
    replaced = list(files.extents[:2])
    paths = await files.replace_extents(replaced, await cleaned_of(owner, replaced, dropped_aborts=(1,)))
    assert owner.paths.aborted(1, 0) in paths and owner.paths.aborted(1, 1) not in paths
    assert files_of(files.manifest()) == [(1, 3, 3), (1, 5, 7)]
    replaced = list(files.extents[:2])
    assert is_cleaned(replaced[0].roll)
    paths = await files.replace_extents(replaced, await cleaned_of(owner, replaced, dropped_aborts=(3, 5)))
    assert files_of(files.manifest()) == [(1, 7, 7)]
    assert {owner.paths.aborted(1, 2), owner.paths.aborted(1, 1)} <= {*paths}
    for path in paths:
        await owner.store.delete(path)
    assert markers_of(owner) == [7, 9]
    second = await Owner(fake.client("c2"), 2).start()
    assert markers_of(second) == [7, 9]


async def test_a_file_that_no_manifest_came_to_name_is_deleted_behind_the_next_one() -> None:
    """The manifest's writing may still turn out to have succeeded: until a newer one is durable the file stays."""
    owner = await owner_of_aborted(FakeStore(), 3)
    write_file = owner.store.write_file

    async def refuse_manifests(path: str, *arguments: object, **options: object) -> None:
        if "manifest." in path:
            raise StorageUnavailable(path)
        await write_file(path, *arguments, **options)  # type: ignore[arg-type]

    owner.store.write_file = refuse_manifests  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        await owner.files.advance_log_start(1)
    assert files_of(owner.files.manifest()) == [] and len(owner.files.manifest().aborted) == 3
    owner.store.write_file = write_file  # type: ignore[method-assign]
    paths = await owner.files.advance_log_start(1)
    assert owner.paths.aborted(1, 0) in paths and owner.paths.aborted(1, 1) not in paths
    assert files_of(owner.files.manifest()) == [(1, 1, 3)]


@pytest.mark.parametrize("is_missing", [True, False])
def test_without_a_file_the_partition_waits_for_an_operator(is_missing: bool) -> None:
    """Readers of committed records would get what was aborted (rule 25)."""

    async def main() -> None:
        fake = FakeStore()
        owner = await owner_of_aborted(fake, 5)
        await owner.files.write_manifest()
        if is_missing:
            await owner.store.delete(owner.paths.aborted(1, 0))
        else:
            fake.flip_bit(owner.paths.aborted(1, 0), 50)
        second = Owner(fake.client("c2"), 2)
        await second.claim()
        with pytest.raises(StateDamaged, match=r"aborted\.00000000 is (missing|damaged)") as caught:
            await second.recover()
        report = await report_damage(fake.client("x"), PARTITION, is_state=False)
        assert report.damages == (caught.value.damage,)
        await accept(second.store, caught.value.damage, holder="operator", now_ms=1)
        await second.start_behind_the_claim()
        assert markers_of(second) == [5, 7, 9]
        assert files_of(second.files.manifest()) == [(1, 5, 7)]

    virtual(main)


async def test_nothing_is_read_for_a_manifest_that_names_no_file() -> None:
    manifest = Manifest(1, 0, 0, 0, aborted=table(30))
    owner = await Owner(FakeStore().client("c1"), 1).start()
    assert await with_filed_aborts(owner.store, owner.paths, manifest) is manifest


@pytest.mark.parametrize("change", ["swap", "takeover"])
def test_an_onlooker_looks_again_when_a_file_went_meanwhile(change: str) -> None:
    """A file not found means: read the manifest again (rule 13). It says nothing of damage."""

    async def main() -> None:
        fake = FakeStore()
        owner = await owner_of_aborted(fake, 5)
        await owner.files.write_manifest()
        onlooker = fake.client("x")
        read_file = onlooker.read_file

        async def read_late(path: str, *, length_bytes_max: int) -> bytes:
            if path == owner.paths.aborted(1, 0) and not changes:
                changes.append(change)
                await (swap(owner) if change == "swap" else Owner(fake.client("c2"), 2).start())
            return await read_file(path, length_bytes_max=length_bytes_max)

        changes: list[str] = []
        onlooker.read_file = read_late  # type: ignore[method-assign]
        view = await view_partition(onlooker, PARTITION)
        assert changes and view.manifest is not None
        markers = [entry.last_offset for entry in view.manifest.aborted]
        assert markers == ([3, 5, 7, 9] if change == "swap" else [1, 3, 5, 7, 9])

    virtual(main)


async def swap(owner: Owner) -> None:
    """A compaction that drops the marker at 1, and the deletion of what it replaced."""
    replaced = list(owner.files.extents[:2])
    for path in await owner.files.replace_extents(replaced, await cleaned_of(owner, replaced, dropped_aborts=(1,))):
        await owner.store.delete(path)


def test_an_onlooker_reports_a_file_that_is_lost() -> None:
    async def main() -> None:
        fake = FakeStore()
        owner = await owner_of_aborted(fake, 5)
        await owner.files.write_manifest()
        await owner.store.delete(owner.paths.aborted(1, 0))
        with pytest.raises(StateDamaged, match=r"aborted\.00000000 is missing"):
            await view_partition(fake.client("x"), PARTITION)

    virtual(main)
