"""A member of a share group over a blocking connection: what it is given, and what it is told of its accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from bench.cluster.admin import AdminFailed, Connection, check
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from bmq.protocol.share_state_messages import BATCH_OPTIMIZED, RECORD_LIMIT, AckType

MAX_BYTES: Final = 1024 * 1024
ANSWER_WAIT_S: Final = 15.0


class Given(NamedTuple):
    """Records `first` … `last`, for the `count`th time."""

    partition: int
    first: int
    last: int
    count: int  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Fetched:
    """`refused`: error code by partition whose records could not be accepted."""

    given: Sequence[Given]
    refused: dict[int, int]


class Member:
    """One share session at one node. A context: the connection is closed behind it, and the session ends with that.

    Raises OSError when the node is gone, AdminFailed when it refuses the session.
    """

    def __init__(self, address: str, group_id: str, member_id: str, topic_id: UUID, partitions: Iterable[int]) -> None:
        self.member_id = member_id
        self._group_id, self._topic_id = group_id, topic_id
        self._epoch = 0
        self._connection = Connection(address, ANSWER_WAIT_S)
        named = [FetchPartition(partition_index=number) for number in partitions]
        self._call(named, max_records=0, max_wait_ms=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        """End the connection under another thread that uses it."""
        self._connection.abort()

    def fetch(
        self, accepted: Sequence[Given] = (), *, max_records: int, max_wait_ms: int, is_exact: bool = False
    ) -> Fetched:
        """Accept these and be given more. Raises OSError, AdminFailed: then nobody knows whether they were accepted.

        `is_exact`: no more than `max_records`, though a batch has more.
        """
        by_partition: dict[int, list[AcknowledgementBatch]] = {}
        for one in accepted:
            batch = AcknowledgementBatch(
                first_offset=one.first, last_offset=one.last, acknowledge_types=[AckType.ACCEPT]
            )
            by_partition.setdefault(one.partition, []).append(batch)
        named = [
            FetchPartition(partition_index=number, acknowledgement_batches=batches)
            for number, batches in by_partition.items()
        ]
        answer = self._call(named, max_records, max_wait_ms, RECORD_LIMIT if is_exact else BATCH_OPTIMIZED)
        found = [one for topic in answer.responses for one in topic.partitions]
        for one in found:
            check(f"partition {one.partition_index}", one.error_code, one.error_message)
        return Fetched(
            [
                Given(one.partition_index, given.first_offset, given.last_offset, given.delivery_count)
                for one in found
                for given in one.acquired_records
            ],
            {one.partition_index: one.acknowledge_error_code for one in found if one.acknowledge_error_code},
        )

    def _call(
        self, named: Sequence[FetchPartition], max_records: int, max_wait_ms: int, mode: int = BATCH_OPTIMIZED
    ) -> Any:
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=max_records,
            batch_size=max(max_records, 1),
            share_acquire_mode=mode,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=named)] if named else [],
        )
        self._epoch += 1
        answer = self._connection.call(ApiKey.SHARE_FETCH, request)
        check(f"share fetch of {self.member_id}", answer.error_code, answer.error_message)
        return answer


GONE: Final = (OSError, AdminFailed)
"""What a member raises when its session cannot go on."""
