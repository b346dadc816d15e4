"""A transactional producer made of single requests, in their right or wrong order, by kio's schemas: not bmq's own codec."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.add_offsets_to_txn.v3.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v3.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v3.request import EndTxnRequest as EndTxnRequestV3
from kio.schema.end_txn.v3.response import EndTxnResponse as EndTxnResponseV3
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.txn_offset_commit.v3 import request as txn_offset_commit_v3
from kio.schema.txn_offset_commit.v3.response import TxnOffsetCommitResponse as TxnOffsetCommitResponseV3
from kio.schema.txn_offset_commit.v5 import request as txn_offset_commit_v5
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse
from kio.schema.write_txn_markers.v2.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

from testing import wire
from testing.patience import Patience
from testing.wire import Reader, WireClient
from tests.support.kio_client import call

MAY_PASS = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
DESCRIBE_TRANSACTIONS = 65
RETRY_WAIT_S = 30.0
PAUSE_S = 0.02


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int

    def at(self, epochs_later: int) -> Identity:
        return Identity(self.producer_id, self.epoch + epochs_later)


Partitions = Mapping[str, Iterable[int]]
"""topic -> partition numbers"""


class TransactionClient:
    """Answers are error codes; what passes by itself is tried again by `begun`, `ended` and `produce` alone."""

    def __init__(self, client: WireClient) -> None:
        self.wire = client

    def find(self, key: str, key_type: int = 1) -> ErrorCode:
        answer = call(
            self.wire,
            FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,)),  # type: ignore[arg-type]
            FindCoordinatorResponse,
        )
        return answer.coordinators[0].error_code

    def init(
        self, transactional_id: str, given: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
    ) -> tuple[ErrorCode, Identity]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,  # type: ignore[arg-type]
            transaction_timeout=timedelta(milliseconds=timeout_ms),  # type: ignore[arg-type]
            producer_id=given[0],  # type: ignore[arg-type]
            producer_epoch=given[1],  # type: ignore[arg-type]
        )
        answer = call(self.wire, request, InitProducerIdResponse)
        return answer.error_code, Identity(answer.producer_id, answer.producer_epoch)

    def begun(self, transactional_id: str, timeout_ms: int = 60_000) -> Identity:
        """A producer that has its id, however long that takes."""
        patience = Patience(RETRY_WAIT_S)
        while True:
            code = self.find(transactional_id)
            if code is ErrorCode.none:
                code, identity = self.init(transactional_id, timeout_ms=timeout_ms)
                if code is ErrorCode.none:
                    return identity
            assert code in MAY_PASS and not patience.is_over(), code
            time.sleep(PAUSE_S)

    def add(self, transactional_id: str, identity: Identity, partitions: Partitions) -> dict[str, list[ErrorCode]]:
        topics = tuple(
            AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))  # type: ignore[arg-type]
            for name, numbers in partitions.items()
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,  # type: ignore[arg-type]
            v3_and_below_producer_id=identity.producer_id,  # type: ignore[arg-type]
            v3_and_below_producer_epoch=identity.epoch,  # type: ignore[arg-type]
            v3_and_below_topics=topics,
        )
        answer = call(self.wire, request, AddPartitionsToTxnResponse)
        return {
            topic.name: [one.partition_error_code for one in topic.results_by_partition]
            for topic in answer.results_by_topic_v3_and_below
        }

    def add_offsets(self, transactional_id: str, identity: Identity, group_id: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,  # type: ignore[arg-type]
            producer_id=identity.producer_id,  # type: ignore[arg-type]
            producer_epoch=identity.epoch,  # type: ignore[arg-type]
            group_id=group_id,  # type: ignore[arg-type]
        )
        return call(self.wire, request, AddOffsetsToTxnResponse).error_code

    def commit_offset(
        self,
        transactional_id: str,
        group_id: str,
        identity: Identity,
        topic: str,
        *,
        partition: int = 0,
        version: int = 5,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> ErrorCode:
        schema: Any = txn_offset_commit_v5 if version == 5 else txn_offset_commit_v3
        part = schema.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
        )
        request = schema.TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=(schema.TxnOffsetCommitRequestTopic(name=topic, partitions=(part,)),),
        )
        answer: Any = call(self.wire, request, TxnOffsetCommitResponse if version == 5 else TxnOffsetCommitResponseV3)
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def end(self, transactional_id: str, identity: Identity, *, is_commit: bool = True, version: int = 5) -> ErrorCode:
        request: Any = EndTxnRequest if version == 5 else EndTxnRequestV3
        asked = request(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        answer: Any = call(self.wire, asked, EndTxnResponse if version == 5 else EndTxnResponseV3)
        code: ErrorCode = answer.error_code
        return code

    def ended(
        self, transactional_id: str, identity: Identity, *, is_commit: bool = True, version: int = 5
    ) -> ErrorCode:
        """As `end`, once the markers of an earlier transaction are written; and those of this one, if there are any."""
        patience = Patience(RETRY_WAIT_S)
        while True:
            code = self.end(transactional_id, identity, is_commit=is_commit, version=version)
            if code is not ErrorCode.concurrent_transactions:
                break
            assert not patience.is_over()
            time.sleep(PAUSE_S)
        while self.state(transactional_id).startswith("Prepare"):
            assert not patience.is_over()
            time.sleep(PAUSE_S)
        return code

    def produce(
        self,
        transactional_id: str | None,
        identity: Identity,
        topic: str,
        sequence: int,
        *,
        partition: int = 0,
        version: int = 12,
        is_transactional: bool = True,
        tags: bytes = b"\0",
    ) -> int:
        """The error code. `tags`: the request's section of tagged fields."""
        records = wire.record_batch(
            [b"%d" % sequence], *identity, base_sequence=sequence, is_transactional=is_transactional
        )
        body = b"\0" + _compact(transactional_id) + struct.pack(">hi", -1, 30_000) + b"\2" + _compact(topic) + b"\2"
        body += struct.pack(">i", partition) + _length(len(records)) + records + b"\0\0" + tags
        patience = Patience(RETRY_WAIT_S)
        while True:
            reader = self.wire.call(wire.PRODUCE, version, body)
            assert reader.take(">BB") == (0, 2)
            assert reader.raw(reader.one(">B") - 1) == topic.encode()
            _, _, code = reader.take(">Bih")
            # Apache Kafka tells of a new topic a moment before it leads its partitions.
            if code != ErrorCode.not_leader_or_follower:
                return code
            assert not patience.is_over()
            time.sleep(PAUSE_S)

    def described(self, transactional_id: str) -> tuple[ErrorCode, str]:
        """(error, state). kio cannot read the start of a transaction that there is none of."""
        reader = self.wire.call(DESCRIBE_TRANSACTIONS, 0, b"\0\2" + _compact(transactional_id) + b"\0")
        _, _, count, code = reader.take(">BiBh")
        assert count == 2
        assert _read_compact(reader) == transactional_id
        return ErrorCode(code), _read_compact(reader)

    def state(self, transactional_id: str) -> str:
        return self.described(transactional_id)[1]

    def listed(self, **filters: Any) -> ListTransactionsResponse:
        fields: dict[str, Any] = {
            "state_filters": (),
            "producer_id_filters": (),
            "duration_filter": -1,
            "transactional_id_pattern": None,
        }
        return call(self.wire, ListTransactionsRequest(**(fields | filters)), ListTransactionsResponse)

    def mark(
        self, identity: Identity, partitions: Partitions, *, coordinator_epoch: int = 0, transaction_version: int = 0
    ) -> dict[str, list[ErrorCode]]:
        """Abort there, as operators do."""
        topics = tuple(
            WritableTxnMarkerTopic(name=name, partition_indexes=tuple(numbers))  # type: ignore[arg-type]
            for name, numbers in partitions.items()
        )
        marker = WritableTxnMarker(
            producer_id=identity.producer_id,  # type: ignore[arg-type]
            producer_epoch=identity.epoch,  # type: ignore[arg-type]
            transaction_result=False,
            topics=topics,
            coordinator_epoch=coordinator_epoch,  # type: ignore[arg-type]
            transaction_version=transaction_version,  # type: ignore[arg-type]
        )
        answer = call(self.wire, WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse)
        told: Sequence[Any] = answer.markers[0].topics
        return {topic.name: [one.error_code for one in topic.partitions] for topic in told}


def _compact(text: str | None) -> bytes:
    return b"\0" if text is None else _length(len(text.encode())) + text.encode()


def _read_compact(reader: Reader) -> str:
    length = shift = 0
    while True:
        byte = reader.one(">B")
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return reader.raw(length - 1).decode()


def _length(length: int) -> bytes:
    """As compact strings and bytes have it."""
    left, out = length + 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
