"""The small nouns of consumer groups: one member's steps, patterns, topics, timers, wake-ups, consumers' own bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer.consumer_protocol import (
    NamedPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from bmq.coordinator.consumer.member import ConsumerMember, MemberState
from bmq.coordinator.consumer.partition_sets import Target, owned_of, owned_parts, target_of, target_parts
from bmq.coordinator.consumer.patterns import COMPILED_BYTES_MAX, PATTERN_CHARS_MAX, compiled
from bmq.coordinator.consumer.reconciliation import TargetAssignment, reconciled
from bmq.coordinator.consumer.resolution import ResolutionTimes, is_due
from bmq.coordinator.modern.member_timers import Due, GroupTimers, TimerKind, TimerOrder
from bmq.coordinator.modern.subscribed_topics import metadata_hash, partition_counts, topic_ids
from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.coordinator.runtime.wake_ups import WakeUps
from bmq.coordinator.topics import changes
from bmq.protocol.consumer_group_records import TopicPartitions
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from tests.unit.coordinator.cluster import FakeTopic, FakeTopics
from tests.unit.coordinator.consumer.bench import Bench, code_of

pytestmark = pytest.mark.unit

T, U = UUID(int=1), UUID(int=2)

# ---------------------------------------------------------------- a member's steps

_PLACES = st.sets(st.tuples(st.sampled_from([T, U]), st.integers(0, 3)))


def by_topic(places: set[tuple[UUID, int]]) -> Target:
    return {t: frozenset(p for topic, p in places if topic == t) for t in {topic for topic, _ in places}}


def owned(places: set[tuple[UUID, int]], epoch: int) -> Any:
    return {topic: dict.fromkeys(partitions, epoch) for topic, partitions in by_topic(places).items()}


def places_of(partitions: Any) -> set[tuple[UUID, int]]:
    return {(topic, p) for topic, ps in partitions.items() for p in ps}


@given(
    state=st.sampled_from([MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED]),
    assigned=_PLACES,
    pending=_PLACES,
    wanted=_PLACES,
    held=_PLACES,
    told=st.none() | _PLACES,
    subscribed=st.sets(st.sampled_from([T, U])),
    epochs=st.sampled_from([(3, 3), (3, 5)]),
)
def test_one_step(
    state: MemberState,
    assigned: set[tuple[UUID, int]],
    pending: set[tuple[UUID, int]],
    wanted: set[tuple[UUID, int]],
    held: set[tuple[UUID, int]],
    told: set[tuple[UUID, int]] | None,
    subscribed: set[UUID],
    epochs: tuple[int, int],
) -> None:
    """Nothing that is held is given, nothing is given before what must go is gone, and nothing unsubscribed stays."""
    epoch, target_epoch = epochs
    if state is MemberState.UNREVOKED:
        pending -= assigned
    else:
        pending = set()
    held -= assigned | pending
    if state is MemberState.UNREVOKED and not pending:
        return
    member = ConsumerMember(
        "m", epoch=epoch, previous_epoch=2, state=state, assigned=owned(assigned, 1), pending=owned(pending, 1)
    )
    assignment = TargetAssignment(target_epoch, by_topic(wanted), subscribed.__contains__, lambda t, p: (t, p) in held)
    after = reconciled(member, assignment, None if told is None else by_topic(told))
    has, gives = places_of(after.assigned), places_of(after.pending)
    target = {(topic, p) for topic, p in wanted if topic in subscribed}
    assert not has & gives and not has & held
    assert {topic for topic, _ in has} <= subscribed
    assert after.epoch in (epoch, target_epoch)
    assert (after.state is MemberState.UNREVOKED) == bool(gives)
    may_have = assigned | pending if told is None else told & (assigned | pending)
    if gives:
        assert after.epoch == epoch and may_have & gives and has <= assigned
    if after.epoch == target_epoch != epoch:
        assert has == target - held, "all that is free, and nothing else"
        assert not (may_have & (assigned | pending)) - has - (target & held) or told is not None
    if after is not member:
        assert after.previous_epoch == epoch
        for topic, p in has:
            kept = (topic, p) in assigned
            assert after.assigned[topic][p] == (1 if kept else target_epoch)
    assert reconciled(after, assignment, by_topic(has)).epoch in (after.epoch, target_epoch)


def test_a_member_that_waits_is_not_written_again() -> None:
    member = ConsumerMember("m", epoch=3, previous_epoch=2, state=MemberState.UNRELEASED)
    wanted = TargetAssignment(3, {T: frozenset({0})}, lambda _: True, lambda *_: True)
    assert reconciled(member, wanted, None) is member


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("regex", "name", "is_match"),
    [
        ("foo", "foobar", False),
        ("foo", "a-foo", False),
        ("foo.*", "foobar", True),
        ("FOO", "foo", False),
        ("(?i)FOO", "foo", True),
        ("foo|bar", "bar", True),
        ("^foo$", "foo", True),
        (r"\d+", "12", True),
        ("(a+)+b", "a" * 249, False),
        (".*", "__consumer_offsets", True),
        ("", "foo", False),
    ],
)
def test_whole_names_are_matched(regex: str, name: str, is_match: bool) -> None:
    assert compiled(regex)(name) is is_match


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "[a",
        "a**",
        "*",
        r"(a)\1",
        "a(?=b)",
        "(?<!a)b",
        "a{1001}",
        "((a{100}){100}){100}",
        "x" * (PATTERN_CHARS_MAX + 1),
        r"\pN{900}" * 400,
    ],
)
def test_patterns_that_are_refused(regex: str) -> None:
    assert code_of(lambda: compiled(regex)) is ErrorCode.INVALID_REGULAR_EXPRESSION


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        assert compiled(text)("a-topic") in (True, False)
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert COMPILED_BYTES_MAX < 1024 * 1024


def test_when_expressions_are_looked_up() -> None:
    bench = Bench({"t": 1})
    bench.join("A")
    assert bench.group is not None
    config, now = ConsumerConfig(), bench.now_ms
    assert not is_due(bench.group, ResolutionTimes(), config, now), "there are none"
    bench.join("B", None, regex="t")
    assert is_due(bench.group, ResolutionTimes(), config, now)
    assert not is_due(bench.group, ResolutionTimes(now - 9_999), config, now), "not twice in ten seconds"
    assert is_due(bench.group, ResolutionTimes(now - 10_000), config, now)
    bench.resolve(t=["t"])
    quiet = ResolutionTimes(now, has_new_topics=False)
    assert not is_due(bench.group, quiet, config, now + 599_999)
    assert is_due(bench.group, quiet, config, now + 600_000)
    assert is_due(bench.group, quiet._replace(has_new_topics=True), config, now + 10_000)
    bench.join("C", None, regex="u")
    assert is_due(bench.group, quiet, config, now + 10_000)
    assert is_due(bench.group, quiet, config, now - 1), "a clock that was set back holds nothing up"


# ---------------------------------------------------------------- topics


def topics(**counts: int) -> FakeTopics:
    return FakeTopics(
        {name: FakeTopic(name, UUID(int=ord(name)), tuple(range(count))) for name, count in counts.items()}
    )


def test_the_hash_is_another_one_when_a_topic_is() -> None:
    names = ["b", "a", "missing"]
    before = metadata_hash(names, topics(a=1, b=2, c=3))
    assert -(2**63) <= before < 2**63
    assert metadata_hash(names[::-1], topics(b=2, a=1)) == before, "order and other topics do not matter"
    for others in (topics(a=2, b=2), topics(a=1), topics(b=2)):
        assert metadata_hash(names, others) != before
    again = topics(a=1, b=2)
    again.topics["a"] = replace(again.topics["a"], topic_id=UUID(int=999))
    assert metadata_hash(names, again) != before, "another topic of the same name"
    assert metadata_hash(["missing"], topics(a=1)) == metadata_hash([], topics()) == 0
    assert topic_ids(names, topics(a=1)) == {UUID(int=ord("a"))}
    assert partition_counts(names, topics(a=1)) == {UUID(int=ord("a")): 1}


def test_what_changed_between_two_images() -> None:
    old, new = topics(a=1, b=2, c=3), topics(a=1, b=3, d=1)
    found = changes(old, new)
    assert (found.names, found.created) == ({"b", "c", "d"}, {"d"})
    assert changes(old, old).names == frozenset()


# ---------------------------------------------------------------- time


def test_timers() -> None:
    timers = GroupTimers()
    assert timers.wake_ms == NEVER_MS and timers.due(1e9) == []
    timers.apply(TimerOrder(TimerKind.SESSION, "A", 100), 0)
    timers.apply(TimerOrder(TimerKind.REBALANCE, "A", 50, 3), 0)
    timers.apply(TimerOrder(TimerKind.JOIN, "B", 70, keeps=True), 0)
    timers.apply(TimerOrder(TimerKind.JOIN, "B", 70, keeps=True), 60)
    assert timers.wake_ms == 50
    assert timers.due(60) == [Due(TimerKind.REBALANCE, "A", 3)]
    assert timers.wake_ms == 70 and not timers.is_running(TimerKind.REBALANCE, "A")
    timers.apply(TimerOrder(TimerKind.SESSION, "A", 100), 90)
    timers.apply(TimerOrder(TimerKind.JOIN, "B", None), 90)
    assert timers.due(100) == [] and timers.wake_ms == 190
    timers.after_stall(150)
    assert timers.due(249) == [] and timers.due(250) == [Due(TimerKind.SESSION, "A", -1)]
    timers.apply(TimerOrder(TimerKind.SESSION, "A", 1), 300)
    timers.forget("A")
    assert timers.due(1e9) == []


def test_a_timer_is_due_until_it_is_stopped_or_restarted_or_acted_on() -> None:
    timers = GroupTimers()
    due = Due(TimerKind.JOIN, "A", -1)
    start, stop = TimerOrder(TimerKind.JOIN, "A", 10), TimerOrder(TimerKind.JOIN, "A", None)
    for how in (
        lambda: timers.apply(start, 20),
        lambda: timers.apply(stop, 20),
        lambda: timers.handled(due),
        lambda: timers.forget("A"),
    ):
        timers.apply(start, 0)
        assert not timers.is_due(due)
        assert timers.due(10) == [due]
        assert timers.is_due(due)
        timers.apply(start._replace(keeps=True), 15)
        assert timers.is_due(due), "its member was told before, and its time is over"
        how()
        assert not timers.is_due(due)
        timers.apply(stop, 20)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.booleans()), max_size=200))
def test_wake_ups_come_in_time_and_once(orders: list[tuple[str, int, bool]]) -> None:
    wake_ups, model, now = WakeUps(), dict[str, float](), 0
    for name, delay, is_forgotten in orders:
        if is_forgotten:
            wake_ups.forget(name)
            model.pop(name, None)
        else:
            at = now + delay
            assert wake_ups.schedule(name, at) == (at < model.get(name, NEVER_MS))
            model[name] = min(at, model.get(name, NEVER_MS))
        assert wake_ups.next_ms <= min(model.values(), default=NEVER_MS)
        now += 7
        due = wake_ups.due(now)
        assert sorted(due) == sorted(name for name, at in model.items() if at <= now)
        model = {name: at for name, at in model.items() if at > now}
    assert len(wake_ups._heap) <= 3 * 2 + 65


# ---------------------------------------------------------------- bytes


def test_partitions_as_records_have_them() -> None:
    target = {U: frozenset({2, 1}), T: frozenset({0})}
    assert [part.topic_id for part in target_parts(target)] == [T, U]
    assert target_of(target_parts(target)) == target
    mine = {T: {0: 3, 2: 1}}
    assert owned_of(owned_parts(mine), 9) == mine
    old = [TopicPartitions(topic_id=T, partitions=(0, 2)), TopicPartitions(topic_id=U)]
    assert owned_of(old, 9) == {T: {0: 9, 2: 9}}, "an older server does not say since when"


def test_what_consumers_say() -> None:
    data = b"\0\x03\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\x05\0\x01r"
    said = Subscription(topics=("t",), owned=(NamedPartitions(topic="t", partitions=(2,)),), generation=5, rack_id="r")
    assert decode_subscription(data) == said
    later = b"\0\x07" + data[2:] + b"what a later version adds"
    assert decode_subscription(later) == said and version_of(later) == 3
    assert decode_subscription(b"\0\0\0\0\0\x01\0\x01t\0\0\0\x01x") == Subscription(topics=("t",), user_data=b"x")
    encoded = encode_assignment({T: [1, 0], U: [5]}, FakeTopics({"t": FakeTopic("t", T)}), 1)
    assert encoded == b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\xff\xff\xff\xff"
    assert decode_assignment(encoded).assigned == (NamedPartitions(topic="t", partitions=(0, 1)),)
    assert decode_assignment(b"").assigned == ()


@given(st.binary(max_size=60))
def test_bytes_of_no_meaning(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, version_of):
        try:
            decode(data)
        except MalformedMessage:
            pass
