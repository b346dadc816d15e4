"""Share sessions: epochs, limits, the end of connections, and which partitions an answer names."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.proxy.share import sessions
from bmq.proxy.share.sessions import EPOCH_MAX, ShareScope, ShareSessionCache, must_send_partition

pytestmark = pytest.mark.unit

T0, T1, T2 = (TopicPartition(UUID(int=7), number) for number in range(3))
KEY = ("g", "m")


def fetch(
    cache: ShareSessionCache,
    epoch: int,
    named: tuple[TopicPartition, ...] = (),
    forgotten: tuple[TopicPartition, ...] = (),
    *,
    key: tuple[str, str] = KEY,
    has_acknowledgements: bool = False,
    connection: str = "c",
) -> ShareScope:
    return cache.fetch(key, epoch, named, forgotten, has_acknowledgements=has_acknowledgements, connection=connection)


def looked_at(scope: ShareScope) -> list[TopicPartition]:
    return [one.topic_partition for one in scope.partitions]


@pytest.mark.parametrize("epoch", [1, 2, -1])
def test_without_a_session_every_later_epoch_is_unknown(epoch: int) -> None:
    cache = ShareSessionCache()
    assert fetch(cache, epoch).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert cache.acknowledge(KEY, epoch).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_fetches_and_acknowledgements_move_one_epoch() -> None:
    cache = ShareSessionCache()
    assert looked_at(fetch(cache, 0, (T0, T1))) == [T0, T1]
    assert fetch(cache, 1).error_code == 0
    assert cache.acknowledge(KEY, 2).error_code == 0
    assert fetch(cache, 2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert cache.acknowledge(KEY, 2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sorted(looked_at(fetch(cache, 3))) == [T0, T1]
    assert cache.acknowledge(KEY, 0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_the_epoch_after_the_greatest_is_1() -> None:
    cache = ShareSessionCache()
    scope = fetch(cache, 0, (T0,))
    assert scope.session is not None
    scope.session.epoch = EPOCH_MAX
    assert fetch(cache, EPOCH_MAX).error_code == 0
    assert fetch(cache, 1).error_code == 0


def test_acknowledgements_in_the_first_request_leave_the_session_alone() -> None:
    cache = ShareSessionCache()
    assert fetch(cache, 0, (T0,), has_acknowledgements=True).error_code == ErrorCode.INVALID_REQUEST
    assert len(cache) == 0
    fetch(cache, 0, (T0,))
    assert fetch(cache, 0, (T1,), has_acknowledgements=True).error_code == ErrorCode.INVALID_REQUEST
    assert looked_at(fetch(cache, 1)) == [T0]


def test_partitions_are_added_forgotten_and_rotated() -> None:
    cache = ShareSessionCache()
    fetch(cache, 0, (T0,))
    assert sorted(looked_at(fetch(cache, 1, (T1, T2, T0)))) == [T0, T1, T2]
    assert cache.partition_count == 3
    second, third = looked_at(fetch(cache, 2)), looked_at(fetch(cache, 3))
    assert second[0] != third[0] and sorted(second) == sorted(third) == [T0, T1, T2]
    assert looked_at(fetch(cache, 4, (), (T0, T2))) == [T1]
    assert cache.partition_count == 1


def test_a_session_opened_again_holds_what_the_earlier_one_did() -> None:
    cache = ShareSessionCache()
    first = fetch(cache, 0, (T0,), connection="old").session
    assert first is not None
    first.touched[T0] = None
    second = fetch(cache, 0, (T1,), connection="new").session
    assert second is not None and second.number > first.number and list(second.touched) == [T0]
    assert not first.is_over  # what it is about to acquire is still its member's
    assert cache.lost("old") == [] and len(cache) == 1
    assert cache.lost("new") == [second] and second.is_over and first.is_over
    assert (len(cache), cache.partition_count, cache.evicted) == (0, 0, 1)
    assert not cache.has_connection("new")


def test_the_last_request_ends_nothing_before_its_acknowledgements_are_done() -> None:
    cache = ShareSessionCache()
    fetch(cache, 0, (T0,))
    scope = cache.acknowledge(KEY, -1)
    assert scope.is_final and scope.session is not None and len(cache) == 1
    cache.end(scope.session)
    cache.end(scope.session)
    assert len(cache) == 0 and cache.partition_count == 0


def test_limits_refuse_and_keep_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ShareSessionCache(sessions_max=1, partitions_max=2)
    fetch(cache, 0, (T0,))
    assert fetch(cache, 0, (T0,), key=("g", "n")).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert fetch(cache, 1, (T1, T2)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert looked_at(fetch(cache, 1)) == [T0]
    monkeypatch.setattr(sessions, "SESSION_PARTITIONS_MAX", 1)
    assert fetch(cache, 2, (T1,)).error_code == ErrorCode.INVALID_REQUEST
    assert fetch(cache, 0, (T0,)).error_code == 0  # the place of the member's own earlier session
    assert len(cache) == 1 and cache.partition_count == 1


def test_answers_name_what_is_new_has_records_or_an_error() -> None:
    cache = ShareSessionCache()
    opened = fetch(cache, 0, (T0,))
    assert [must_send_partition(opened, one, has_records=False, has_error=False) for one in opened.partitions] == [True]
    epoch = 1

    def named(records: TopicPartition | None = None, error: TopicPartition | None = None) -> list[TopicPartition]:
        nonlocal epoch
        scope = fetch(cache, epoch, (T0, T1))
        epoch += 1
        return sorted(
            one.topic_partition
            for one in scope.partitions
            if must_send_partition(
                scope, one, has_records=one.topic_partition == records, has_error=one.topic_partition == error
            )
        )

    assert named() == [T1]
    assert named() == []
    assert named(records=T0) == [T0]
    assert named(error=T1) == [T1]
    assert named() == [T1]  # the error is over
    assert named() == []
