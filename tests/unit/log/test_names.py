"""Directory and file names round-trip, and a listing says who is fenced and what is to be sealed (rule 1)."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log import names
from bmq.log.names import EpochListing, PartitionPaths
from bmq.log.partition_log import TopicPartition
from bmq.log.store import FileStatus

pytestmark = pytest.mark.unit

NUMBERS = st.integers(0, 2**31 - 1)
EPOCHS = st.frozensets(st.integers(0, 12))


def directory(name: str) -> FileStatus:
    return FileStatus(name, True, 0, 1, False)


@given(NUMBERS, NUMBERS)
def test_every_name_is_parsed_back_and_by_nobody_else(first: int, second: int) -> None:
    made = {
        names.parse_epoch_directory: {
            names.sealed_name(first): (first, False),
            names.open_name(first): (first, True),
        },
        names.parse_segment: {} if names.is_cleaned(first) else {names.segment_name(first): first},
        names.parse_index: {names.index_name(first): first},
        names.parse_rebuilt_index: {names.rebuilt_index_name(first, second): (first, second)},
        names.parse_manifest: {names.manifest_name(first): first},
        names.parse_snapshot: {names.snapshot_name(first): first},
    }
    # A segment that compaction made is nobody's: only a manifest names it.
    everything = [names.segment_name(first), *(name for table in made.values() for name in table)]  # type: ignore[attr-defined]
    everything = list(dict.fromkeys(everything))
    assert len(set(everything)) == len(everything)
    for parse, table in made.items():
        for name in everything:
            assert parse(name) == table.get(name)  # type: ignore[attr-defined]


@given(st.text(max_size=20))
def test_strange_names_are_nobodys(name: str) -> None:
    for parse in (names.parse_segment, names.parse_index, names.parse_manifest, names.parse_snapshot):
        number = parse(name)
        assert number is None or str(number) in name


@pytest.mark.parametrize("name", ["7", "0000007", "000000007", "00000007.opened", "00000007 ", "０0000007", "owner"])
def test_only_the_one_spelling_is_an_epoch(name: str) -> None:
    assert names.parse_epoch_directory(name) is None


@given(st.integers(0, 10**8 - 2))
def test_both_forms_of_an_epoch_are_neighbours_in_byte_order(epoch: int) -> None:
    ordered = [names.sealed_name(epoch), names.open_name(epoch), names.sealed_name(epoch + 1)]
    assert sorted(ordered) == ordered


def test_paths() -> None:
    partition = TopicPartition(UUID(int=10), 3)
    paths = PartitionPaths(names.partition_directory(partition), 8)
    base = "topics/00000000-0000-0000-0000-00000000000a/3"
    assert paths.own == f"{base}/00000008.open"
    assert paths.own_sealed == f"{base}/00000008"
    assert paths.segment(7, 2) == f"{base}/00000007/00000002.log"
    assert paths.segment(8, 0) == f"{base}/00000008.open/00000000.log"
    assert paths.index(7, 2, 7) == f"{base}/00000007/00000002.index"
    assert paths.index(7, 2, 8) == f"{base}/00000008.open/00000007-00000002.index"
    assert paths.manifest(1) == f"{base}/00000008.open/manifest.00000001"
    assert paths.snapshot(7, 0) == f"{base}/00000007/snapshot.00000000"
    assert paths.owner("node-1-ab") == f"{base}/00000008.open/owner.node-1-ab"
    assert names.parse_owner("owner.node-1-ab") == "node-1-ab"
    assert names.parse_owner("owner") is None


@given(EPOCHS, EPOCHS, st.integers(0, 12))
def test_a_listing_says_what_to_do(opened: frozenset[int], sealed: frozenset[int], epoch: int) -> None:
    entries = [directory(names.open_name(e)) for e in opened] + [directory(names.sealed_name(e)) for e in sealed]
    listing = EpochListing.of([*entries, directory("lost+found"), FileStatus("00000099", False, 0, 1, False)])
    assert listing == EpochListing(opened, sealed)
    everything = opened | sealed
    is_fenced = epoch in sealed or any(other > epoch for other in everything)
    assert (listing.fencing_epoch(epoch) is not None) == is_fenced
    to_seal, leftovers = set(listing.to_seal(epoch)), set(listing.leftovers(epoch))
    assert to_seal.isdisjoint(leftovers)
    assert to_seal | leftovers == {other for other in opened if other < epoch}
    assert leftovers == {other for other in opened & sealed if other < epoch}
    older = listing.older_epochs(epoch)
    assert list(older) == sorted({other for other in everything if other < epoch}, reverse=True)


@given(NUMBERS, NUMBERS)
def test_a_file_has_two_paths_and_each_leads_to_the_other(epoch: int, roll: int) -> None:
    partition = names.partition_directory(TopicPartition(UUID(int=5), 3))
    opened = PartitionPaths(partition, epoch).segment(epoch, roll)
    sealed = PartitionPaths(partition, epoch + 1).segment(epoch, roll)
    assert (names.renamed_path(opened), names.renamed_path(sealed)) == (sealed, opened)
