"""The manifest: what goes in comes out, damage and contradictions are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.checksummed_parts import CorruptParts, UnfinishedParts
from bmq.log.manifest import CorruptManifest, Cut, Extent, Manifest, SnapshotReference, cuts_by_segment

pytestmark = pytest.mark.unit

SMALL = st.integers(0, 1_000)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    offset = log_start = draw(SMALL)
    extents = []
    for roll in range(draw(st.integers(0, 5))):
        length, tail, end_offset = draw(SMALL), draw(SMALL), offset + draw(st.integers(1, 100))
        file_id = draw(st.integers(-(2**70), 2**70))
        epochs = draw(SMALL), draw(SMALL)
        extents.append(Extent(epochs[0], roll, epochs[1], file_id, length + tail, 0, length, offset, end_offset, -1))
        offset = end_offset
    aborted = AbortedTransactions()
    for marker in sorted(draw(st.sets(SMALL, max_size=4))):
        aborted.add(AbortedEntry(draw(SMALL), 0, marker, marker + 1))
    return Manifest(
        leader_epoch=draw(SMALL),
        next_roll=draw(SMALL),
        log_start_offset=log_start,
        end_offset=offset,
        extents=tuple(extents),
        cuts=tuple(draw(st.lists(st.builds(Cut, SMALL, SMALL, SMALL), max_size=3))),
        epoch_history=tuple(draw(st.lists(st.tuples(SMALL, SMALL), max_size=3))),
        snapshots=tuple(draw(st.lists(st.builds(SnapshotReference, SMALL, SMALL, SMALL, SMALL, SMALL), max_size=2))),
        aborted=aborted,
        producers=draw(st.none() | st.binary(max_size=30)),
    )


@given(manifests())
def test_round_trip(manifest: Manifest) -> None:
    decoded = Manifest.decode(manifest.encode())
    assert list(decoded.aborted) == list(manifest.aborted)
    assert replace(decoded, aborted=manifest.aborted) == manifest


@given(manifests(), st.data())
def test_every_flipped_bit_and_cut_is_found(manifest: Manifest, data: st.DataObject) -> None:
    whole = manifest.encode()
    damaged = bytearray(whole)
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptManifest):
        Manifest.decode(damaged)
    with pytest.raises(UnfinishedParts):
        Manifest.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=200))
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptParts):
        Manifest.decode(data)


FIRST = Extent(1, 0, 1, 11, 100, 0, 90, 0, 10, 5)
SECOND = Extent(1, 1, 2, 12, 100, 0, 100, 10, 30, 5)
GOOD = Manifest(3, 0, 0, 30, (FIRST, SECOND), snapshots=(SnapshotReference(0, 4, 5, 6, 7),))


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, extents=(FIRST, replace(SECOND, base_offset=11))),
        replace(GOOD, extents=(SECOND, FIRST)),
        replace(GOOD, end_offset=31),
        replace(GOOD, extents=(replace(FIRST, file_bytes=89), SECOND)),
        replace(GOOD, leader_epoch=-1),
        replace(GOOD, snapshots=(SnapshotReference(0, 4, 5, 6, 2**32),)),
    ],
)
def test_contradictions_are_refused(bad: Manifest) -> None:
    with pytest.raises(CorruptManifest):
        Manifest.decode(bad.encode())


def test_the_directories_it_needs() -> None:
    assert GOOD.epochs_named() == {0, 1, 2}
    assert cuts_by_segment([Cut(1, 2, 3), Cut(1, 4, 0)]) == {(1, 2): 3, (1, 4): 0}
    assert FIRST.valid_bytes == 90


@pytest.mark.parametrize(("count", "turns"), [(0, 0), (2_000, 0), (2_001, 1), (4_500, 2)])
def test_many_extents_are_encoded_in_slices(count: int, turns: int) -> None:
    extents = tuple(Extent(1, roll, 1, roll, 10, 0, 10, roll, roll + 1, -1) for roll in range(count))
    manifest = Manifest(1, 0, 0, count, extents)
    assert sum(1 for _ in manifest.encoding()) == turns
    assert Manifest.decode(manifest.encode()).extents == extents


@pytest.mark.parametrize("offset", [0, 7])
def test_only_a_compacted_log_says_how_far(offset: int) -> None:
    """Nodes of a release without compaction refuse what they do not know."""
    encoded = Manifest(3, 0, 0, 0, first_dirty_offset=offset).encode()
    assert (b"first_dirty_offset" in encoded) is (offset > 0)
    assert Manifest.decode(encoded).first_dirty_offset == offset


@pytest.mark.parametrize(("count", "turns"), [(0, 0), (1, 0), (1_000, 0), (4_500, 4)])
def test_many_extents_are_decoded_in_slices(count: int, turns: int) -> None:
    extents = tuple(
        Extent(1, roll, 1, roll, 10**9, 0, 10**9, roll, roll + 1, 1_764_000_000_000) for roll in range(count)
    )
    manifest = replace(GOOD, extents=extents, end_offset=count, cuts=(Cut(1, 2, 3),), epoch_history=((0, 0), (1, 7)))
    work = Manifest.decoding(manifest.encode())
    stops = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            assert end.value.extents == extents and end.value.encode() == manifest.encode()
            break
        stops += 1
    assert stops == turns


def test_an_extent_that_is_wrong_is_found_in_any_slice() -> None:
    extents = [Extent(1, roll, 1, roll, 10**9, 0, 10**9, roll, roll + 1, -1) for roll in range(4_500)]
    for place in (0, 2_000, 4_499):
        wrong = tuple(replace(one, file_id=-1, roll=-1) if one.roll == place else one for one in extents)
        with pytest.raises(CorruptManifest):
            Manifest.decode(replace(GOOD, extents=wrong, end_offset=4_500).encode())
