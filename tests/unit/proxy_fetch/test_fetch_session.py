"""Sessions: whatever a client says and leaves out, what is fetched is what it would have asked for in full."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_fetch import FetchResult
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from bmq.proxy.fetch_session import SESSION_PARTITIONS_MAX, FetchScope, SessionCache

pytestmark = pytest.mark.unit

EVICTION_MS = 1_000
PARTITIONS = st.dictionaries(st.integers(0, 5), st.integers(0, 9), max_size=4)


def request_of(offsets: dict[int, int], session_id: int, epoch: int, forgotten: tuple[int, ...] = ()) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic="t", partitions=[FetchPartition(partition=p, fetch_offset=o) for p, o in offsets.items()])
        ],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forgotten)] if forgotten else [],
    )


class Client:
    """What a consumer knows of its session, and a model of what the server should."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.wanted: dict[int, int] = {}
        self.told: dict[int, tuple[int, int]] = {}  # high watermark and start offset by partition


class SessionHistory(RuleBasedStateMachine):
    """Several consumers, each with full and incremental fetches, forgotten partitions, wrong epochs and evictions."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        numbers = iter(range(1, 10**6))
        self.cache = SessionCache(
            slots_max=3, partitions_max=9, eviction_ms=EVICTION_MS, new_id=lambda: next(numbers) % 50
        )
        self.now_ms = 0
        self.watermarks = dict.fromkeys(range(6), 0)
        self.all: list[Client] = []

    @rule(target=clients)
    def join(self) -> Client:
        client = Client()
        self.all.append(client)
        return client

    @rule(by_ms=st.integers(1, 700))
    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule(partition=st.integers(0, 5))
    def advance(self, partition: int) -> None:
        self.watermarks[partition] += 1

    @rule(client=clients, offsets=PARTITIONS)
    def fetch_in_full(self, client: Client, offsets: dict[int, int]) -> None:
        scope = self.cache.resolve(request_of(offsets, client.session_id, 0), 11, self.now_ms)
        assert scope.error_code == ErrorCode.NONE
        assert {i.partition: i.fetch_offset for i in scope.interests} == offsets
        code, session_id, told = self._answer(scope)
        assert code == ErrorCode.NONE and len(told) == len(offsets)
        client.session_id, client.epoch = session_id, 1 if session_id else 0
        client.wanted = dict(offsets)
        client.told = {p: (self.watermarks[p], 0) for p in offsets}

    @rule(client=clients, changed=PARTITIONS, forgotten=st.sets(st.integers(0, 5), max_size=2))
    def fetch_the_rest(self, client: Client, changed: dict[int, int], forgotten: set[int]) -> None:
        if not client.session_id:
            return
        forgotten -= set(changed)
        request = request_of(changed, client.session_id, client.epoch, tuple(forgotten))
        scope = self.cache.resolve(request, 11, self.now_ms)
        if scope.error_code:
            # It was evicted, to make room or because it grew past what may be remembered.
            assert scope.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            client.session_id = client.epoch = 0
            return
        client.wanted = {p: o for p, o in {**client.wanted, **changed}.items() if p not in forgotten}
        client.told = {p: seen for p, seen in client.told.items() if p in client.wanted}
        assert {i.partition: i.fetch_offset for i in scope.interests} == client.wanted
        code, session_id, told = self._answer(scope)
        assert code == ErrorCode.NONE
        if not client.wanted:
            assert session_id == 0
            client.session_id = client.epoch = 0
            return
        assert session_id == client.session_id
        client.epoch += 1
        # Only what changed since it was told last.
        now = {p: (self.watermarks[p], 0) for p in client.wanted}
        assert {result.partition for _, result in told} == {p for p in now if client.told.get(p) != now[p]}
        client.told = now

    @rule(client=clients, off_by=st.sampled_from((-1, 1, 7)))
    def use_a_wrong_epoch(self, client: Client, off_by: int) -> None:
        epoch = client.epoch + off_by
        if not client.session_id or epoch <= 0:
            return
        scope = self.cache.resolve(request_of({0: 1}, client.session_id, epoch), 11, self.now_ms)
        assert scope.error_code in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        assert not scope.interests

    @rule(client=clients)
    def close(self, client: Client) -> None:
        before = len(self.cache)
        scope = self.cache.resolve(request_of({}, client.session_id, -1), 11, self.now_ms)
        assert self._answer(scope) == (ErrorCode.NONE, 0, [])
        assert len(self.cache) >= before - 1
        client.session_id = client.epoch = 0

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.cache) <= 3
        assert self.cache.partition_count == sum(s.size for s in self.cache._sessions.values()) <= 9

    def _answer(self, scope: FetchScope) -> tuple[int, int, list[tuple[object, FetchResult]]]:
        results = [
            (interest, FetchResult(interest.partition, 0, self.watermarks[interest.partition], 0, 0, ()))
            for interest in scope.interests
        ]
        return self.cache.answer(scope, results, self.now_ms)  # type: ignore[return-value]


# A session's number may be given again once it is gone, so two clients could share one: numbers go up to 49 here and a
# history has fewer sessions.
TestSessionHistory = SessionHistory.TestCase


def cache_of(slots_max: int = 2) -> SessionCache:
    numbers = iter(range(1, 1000))
    return SessionCache(slots_max=slots_max, partitions_max=1000, eviction_ms=EVICTION_MS, new_id=lambda: next(numbers))


def open_session(cache: SessionCache, size: int, now_ms: int) -> int:
    scope = cache.resolve(request_of(dict.fromkeys(range(size), 0), 0, 0), 11, now_ms)
    results = [(interest, FetchResult(interest.partition)) for interest in scope.interests]
    return cache.answer(scope, results, now_ms)[1]


def touch(cache: SessionCache, session_id: int, epoch: int, now_ms: int) -> int:
    return cache.resolve(request_of({0: 1}, session_id, epoch), 11, now_ms).error_code


def test_a_full_cache_gives_no_session_while_all_are_young() -> None:
    cache = cache_of()
    assert open_session(cache, 1, 0) and open_session(cache, 1, 0)
    assert open_session(cache, 5, EVICTION_MS) == 0
    assert cache.evicted == 0


def test_the_stalest_session_goes_first() -> None:
    cache = cache_of()
    first, second = open_session(cache, 9, 0), open_session(cache, 9, 0)
    assert touch(cache, first, 1, 500) == ErrorCode.NONE
    assert open_session(cache, 1, EVICTION_MS + 1)
    assert touch(cache, second, 1, EVICTION_MS + 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert touch(cache, first, 2, EVICTION_MS + 1) == ErrorCode.NONE


def test_an_old_session_gives_way_to_a_bigger_one_only() -> None:
    cache = cache_of()
    small, big = open_session(cache, 2, 0), open_session(cache, 4, 0)
    now_ms = EVICTION_MS + 1
    assert touch(cache, small, 1, now_ms) == touch(cache, big, 1, now_ms) == ErrorCode.NONE
    assert open_session(cache, 2, now_ms) == 0
    assert open_session(cache, 3, now_ms)
    assert touch(cache, small, 2, now_ms) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert touch(cache, big, 2, now_ms) == ErrorCode.NONE


def test_records_move_a_partition_to_the_end() -> None:
    cache = cache_of()
    session_id = open_session(cache, 3, 0)
    scope = cache.resolve(request_of({}, session_id, 1), 11, 0)
    results = [(i, FetchResult(i.partition, 0, 1, 1, 0, (b"x",) if i.partition == 0 else ())) for i in scope.interests]
    cache.answer(scope, results, 0)
    assert [i.partition for i in cache.resolve(request_of({}, session_id, 2), 11, 0).interests] == [1, 2, 0]


def test_an_error_is_told_each_time_and_so_is_its_end() -> None:
    cache = cache_of()
    session_id = open_session(cache, 1, 0)
    told = []
    for epoch, code in enumerate((6, 6, 0, 0), start=1):
        scope = cache.resolve(request_of({}, session_id, epoch), 11, 0)
        results = [(i, FetchResult(i.partition, code, 5 if not code else -1, 5, 0)) for i in scope.interests]
        told.append(len(cache.answer(scope, results, 0)[2]))
    assert told == [1, 1, 1, 0]


def test_a_session_used_twice_at_once_is_refused() -> None:
    cache = cache_of()
    session_id = open_session(cache, 1, 0)
    late = cache.resolve(request_of({}, session_id, 1), 11, 0)
    cache.resolve(request_of({}, session_id, 2), 11, 0)
    assert cache.answer(late, [], 0)[0] == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_keeps_to_names_or_to_ids() -> None:
    cache = cache_of()
    session_id = open_session(cache, 1, 0)
    assert cache.resolve(request_of({}, session_id, 1), 13, 0).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_huge_session_is_none() -> None:
    """However short its next request is, all of it would be looked at."""
    cache = SessionCache(slots_max=3, partitions_max=10**6, eviction_ms=EVICTION_MS, new_id=lambda: 7)

    def fetched(count: int, session_id: int, epoch: int, first: int = 0) -> tuple[int, int]:
        offsets = dict.fromkeys(range(first, first + count), 0)
        scope = cache.resolve(request_of(offsets, session_id, epoch), 11, 0)
        results = [(interest, FetchResult(interest.partition, 0, 0, 0, 0)) for interest in scope.interests]
        code, session, _ = cache.answer(scope, results, 0)
        return code, session

    assert fetched(SESSION_PARTITIONS_MAX + 1, 0, 0) == (ErrorCode.NONE, 0)
    assert fetched(SESSION_PARTITIONS_MAX, 0, 0) == (ErrorCode.NONE, 7)
    assert fetched(1, 7, 1, SESSION_PARTITIONS_MAX) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert cache.partition_count == 0


def test_a_session_keeps_no_name_that_no_topic_may_have() -> None:
    cache = cache_of()

    def named(name: str, session_id: int, epoch: int) -> FetchRequest:
        request = request_of({0: 0}, session_id, epoch)
        for topic in request.topics:
            topic.topic = name
        return request

    scope = cache.resolve(named("t" * 250, 0, 0), 11, 0)
    assert cache.answer(scope, [(one, FetchResult(one.partition)) for one in scope.interests], 0)[1] == 0
    session_id = open_session(cache, 1, 0)
    assert cache.resolve(named("t" * 250, session_id, 1), 11, 0).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.partition_count) == (0, 0)
