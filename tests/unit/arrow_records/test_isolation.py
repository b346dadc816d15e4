"""What a reader of committed records is left with, whatever transactions did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.arrow_records.batch_headers import scan
from bmq.arrow_records.decoder import Selection, decode
from bmq.arrow_records.isolation import CommittedOnly, aborted_in
from bmq.arrow_records.layout import Layout
from bmq.log.aborted_transactions import AbortedEntry
from bmq.log.partition_log import AbortedTransaction
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.record_batch import TRANSACTIONAL
from tests.unit.arrow_records.strategies import ORIGIN

pytestmark = pytest.mark.unit

STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "plain", "commit", "abort"])), max_size=30)


@given(steps=STEPS)
def test_aborted_records_and_markers_are_left_out(steps: list[tuple[int, str]]) -> None:
    log = bytearray()
    aborted: list[AbortedEntry] = []
    committed: list[int] = []
    open_at: dict[int, list[int]] = {}
    offset = 0
    for producer_id, step in steps:
        if step in ("commit", "abort"):
            control = ControlType.COMMIT if step == "commit" else ControlType.ABORT
            log += encode_end_transaction_marker(
                EndTransactionMarker(control, 0),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=0,
                base_offset=offset,
            )
            records = open_at.pop(producer_id, [])
            if step == "commit":
                committed += records
            elif records:
                aborted.append(AbortedEntry(producer_id, records[0], offset, offset))
            offset += 1
            continue
        is_transactional = step == "write"
        log += encode_batch(
            [Record(b"k", b"v")] * 2,
            base_offset=offset,
            producer_id=producer_id if is_transactional else producer_id - 1,
            producer_epoch=0,
            base_sequence=0,
            attributes=(TRANSACTIONAL if is_transactional else 0),
        )
        (open_at.setdefault(producer_id, []) if is_transactional else committed).extend((offset, offset + 1))
        offset += 2
    for records in open_at.values():
        committed += records  # behind the last stable offset, where a reader does not come
    table = decode(log, ORIGIN, Layout(("offset",)), Selection(leaves_out=CommittedOnly(aborted))).table
    assert table.column("offset").to_pylist() == sorted(committed)
    # A fetch does not say where they end.
    headers = scan(bytes(log), ORIGIN, 0, rows_max=1 << 20, bytes_max=1 << 30, batch_bytes_max=1 << 20).headers
    told = [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in aborted]
    ends = {(entry.producer_id, entry.first_offset): entry.last_offset for entry in aborted_in(told, headers)}
    assert ends == {(entry.producer_id, entry.first_offset): entry.last_offset for entry in aborted}


def test_an_aborted_transaction_that_goes_on_behind_what_was_fetched() -> None:
    batch = encode_batch([Record(b"k", b"v")], base_offset=7, producer_id=3, producer_epoch=0, attributes=TRANSACTIONAL)
    headers = scan(bytes(batch), ORIGIN, 0, rows_max=9, bytes_max=999, batch_bytes_max=999).headers
    (entry,) = aborted_in([AbortedTransaction(3, 5)], headers)
    assert (entry.first_offset, entry.last_offset > 1 << 62) == (5, True)
    assert CommittedOnly([entry])(headers).tolist() == [True]
