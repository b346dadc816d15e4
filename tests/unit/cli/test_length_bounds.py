"""What one part of the product may write, the other has to read: each pair of a longest and a longest read length."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.broker.context import BrokerSettings
from bmq.cli.log_files import SNAPSHOT_BYTES_MAX
from bmq.internode_client.link import FRAME_BYTES_MAX
from bmq.log.aborted_files import FILE_BYTES_MAX, FILE_ENTRIES_MAX, encode_file
from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.checksummed_parts import CONTAINER_BYTES_MAX, PART_BYTES_MAX, encode_parts
from bmq.log.delegated_compaction import DESCRIPTION_BYTES_MAX, CleanedFile, DelegationRefused
from bmq.log.manifest import MANIFEST_BYTES_MAX
from bmq.log.segment_index import INDEX_BYTES_MAX
from bmq.log.segment_reader import BATCH_BYTES_MAX
from bmq.protocol.frames import FORWARDED_BYTES_MAX
from bmq.protocol.wire import STRING_BYTES_MAX
from bmq.proxy.limits import BETWEEN_NODES, ProxyLimits

pytestmark = pytest.mark.unit

PARTS_OF_MANIFEST, PARTS_OF_INDEX = 3, 6


def test_manifests_and_indexes_are_read_at_any_length() -> None:
    """A length field of four bytes is all that bounds their parts."""
    head_bytes = len(encode_parts(b"12345678", {b"%4d" % number: b"" for number in range(PARTS_OF_INDEX)}))
    assert PARTS_OF_MANIFEST * PART_BYTES_MAX + head_bytes <= MANIFEST_BYTES_MAX
    assert PARTS_OF_INDEX * PART_BYTES_MAX + head_bytes <= INDEX_BYTES_MAX
    assert SNAPSHOT_BYTES_MAX >= CONTAINER_BYTES_MAX


def test_the_longest_file_of_aborted_transactions_is_read() -> None:
    aborted = AbortedTransactions()
    for marker in range(1, FILE_ENTRIES_MAX + 1):
        aborted.add(AbortedEntry(2**62, 0, marker, marker + 1))
    assert len(encode_file(aborted)) <= FILE_BYTES_MAX


def test_a_clients_longest_request_fits_between_nodes() -> None:
    """With a principal, a transactional id and a client id of the longest that a string can be."""
    assert FORWARDED_BYTES_MAX + 4 * STRING_BYTES_MAX <= BETWEEN_NODES.request_bytes_max <= FRAME_BYTES_MAX
    assert ProxyLimits().request_bytes_max <= FORWARDED_BYTES_MAX
    assert BrokerSettings().append_bytes_max <= FORWARDED_BYTES_MAX


def test_a_description_that_its_owner_would_not_read_is_not_written() -> None:
    """It grows with the markers of aborted transactions that a cleaning drops."""
    file = CleanedFile(7, "f", 1, 1, 0, 0, 2**40, 1, 1, 1, -1)
    most = DESCRIPTION_BYTES_MAX // 14
    with pytest.raises(DelegationRefused, match=r"the description of group 7 has \d+ bytes, 67108864 are allowed"):
        replace(file, dropped_aborts=tuple(range(2**40, 2**40 + most + 1))).encode()
    assert CleanedFile.decode(file.encode()) == file


def test_a_batch_of_the_longest_request_is_read_from_its_segment() -> None:
    assert FORWARDED_BYTES_MAX <= BATCH_BYTES_MAX
