"""Padding between appends: always known for what it is, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.padding import PADDING_BYTES_MIN, UNIT_BYTES, is_blank, is_padding, padded_end, padding_end
from tests.unit.log.owned_log import batch_of

pytestmark = pytest.mark.unit

ALIGNMENTS = st.sampled_from([1, 512, 1024, 1536, 4096])


@given(position=st.integers(0, 1 << 20), alignment_bytes=ALIGNMENTS)
@example(position=4095, alignment_bytes=4096)
@example(position=4096, alignment_bytes=4096)
def test_the_next_append_begins_a_chunk(position: int, alignment_bytes: int) -> None:
    end = padded_end(position, alignment_bytes)
    assert end % alignment_bytes == 0
    assert end == position or PADDING_BYTES_MIN <= end - position < alignment_bytes + PADDING_BYTES_MIN


@given(position=st.integers(0, 1 << 20), alignment_bytes=ALIGNMENTS)
def test_steps_lead_to_its_end_whatever_its_chunks_were(position: int, alignment_bytes: int) -> None:
    end = padded_end(position, alignment_bytes)
    place = position
    while place < end:
        assert end - place >= PADDING_BYTES_MIN  # enough of it to be known by
        place = padding_end(place)
    assert place == end
    assert padding_end(position) - position <= UNIT_BYTES + PADDING_BYTES_MIN


@given(base_offset=st.integers(0, 2**62), value_bytes=st.integers(0, 2_000), gap_bytes=st.integers(0, 30))
def test_a_batch_is_none(base_offset: int, value_bytes: int, gap_bytes: int) -> None:
    batch = bytes(batch_of(1, value_bytes=value_bytes, base_offset=base_offset))
    buffer = bytes(gap_bytes) + batch
    assert not is_padding(buffer, gap_bytes)
    assert not is_blank(batch)
    assert is_padding(bytes(PADDING_BYTES_MIN) + batch, 0)
    assert not is_padding(bytes(PADDING_BYTES_MIN - 1), 0)
