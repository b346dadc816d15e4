"""ConsumerGroupHeartbeat: Kafka's own course of a rebalance, what raises the epoch, and every way to be refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroupState
from bmq.coordinator.consumer.member import MemberState
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.protocol import consumer_group_records as records
from bmq.protocol.error_codes import ErrorCode
from tests.unit.coordinator.consumer.bench import REBALANCE_MS, Bench, code_of, picture, replayed

pytestmark = pytest.mark.unit


def settled(*members: str, topics: dict[str, int] | None = None, **fields: Any) -> Bench:
    """A stable group of these members, each subscribed to t."""
    bench = Bench(topics or {"t": 4})
    for member_id in members:
        bench.join(member_id, **fields)
    settle(bench)
    return bench


def settle(bench: Bench) -> None:
    """Every member says what it owns, until nothing changes."""
    assert bench.group is not None
    for _ in range(10):
        before = picture(bench.group)
        for member in list(bench.group.members.values()):
            if not member.has_left_for_a_while:
                bench.beat(member.member_id, member.epoch, owned_by(bench, member.member_id))
        if picture(bench.group) == before:
            return
    raise AssertionError("the group does not come to rest")


def owned_by(bench: Bench, member_id: str) -> dict[str, list[int]]:
    assert bench.group is not None
    names = {bench.topic_id(name): name for name in bench.topics}
    return {names[t]: sorted(p) for t, p in bench.group.members[member_id].assigned.items() if t in names}


def test_the_course_of_a_rebalance() -> None:
    bench = Bench({"t": 2})
    assert bench.told(bench.join("A")) == (2, {"t": [0, 1]})
    assert bench.told(bench.beat("A", 2, {"t": [0, 1]})) == (2, None)
    assert bench.told(bench.join("B")) == (3, {})
    assert bench.group is not None and bench.group.state is ConsumerGroupState.RECONCILING
    assert bench.told(bench.beat("A", 2)) == (2, {"t": [0]})
    assert bench.timer_orders(TimerKind.REBALANCE) == [("A", REBALANCE_MS)]
    assert bench.told(bench.beat("A", 2, {"t": [0]})) == (3, None)
    assert bench.timer_orders(TimerKind.REBALANCE) == [("A", None)]
    assert bench.told(bench.beat("B", 3)) == (3, {"t": [1]})
    assert bench.group.state is ConsumerGroupState.STABLE
    written = len(bench.log)
    assert bench.told(bench.beat("A", 3)) == (3, None)
    assert bench.told(bench.beat("B", 3, {"t": [1]})) == (3, None)
    assert len(bench.log) == written, "a heartbeat that changes nothing writes nothing"
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_the_answer_has_the_interval_and_the_member_id() -> None:
    bench = Bench()
    answer = bench.join("", version=0)
    assert (answer.member_id, answer.heartbeat_interval_ms, answer.error_code) == ("made-up", 5_000, 0)
    assert bench.timer_orders(TimerKind.SESSION) == [("made-up", 45_000)]


def test_a_member_without_a_subscription_starts_no_rebalance() -> None:
    bench = Bench()
    assert bench.told(bench.join("A", [])) == (1, {})
    assert bench.group is not None and (bench.group.epoch, bench.group.target_epoch) == (1, 1)
    assert picture(replayed(bench.log)) == picture(bench.group)
    assert bench.told(bench.beat("A", 1, topics=["t"])) == (2, {"t": [0, 1]})


def test_a_full_request_is_told_everything_again() -> None:
    bench = settled("A")
    full: dict[str, Any] = {"topics": ["t"], "timeout_ms": REBALANCE_MS}
    assert bench.told(bench.beat("A", 2, {"t": [0, 1, 2, 3]}, **full)) == (2, {"t": [0, 1, 2, 3]})
    assert bench.told(bench.beat("A", 2, **full)) == (2, None)
    assert bench.told(bench.beat("A", 2, {"t": [0]}, topics=["t"])) == (2, None)


def test_who_lost_our_answer_may_say_the_old_epoch() -> None:
    bench = settled("A")
    bench.join("B")
    bench.beat("A", 2)  # to give two back
    bench.beat("A", 2, {"t": [0, 1]})
    assert bench.told(bench.beat("A", 2, {"t": [0, 1]})) == (3, None)
    assert bench.told(bench.beat("A", 2, {})) == (3, None)
    assert code_of(lambda: bench.beat("A", 2)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code_of(lambda: bench.beat("A", 2, {"t": [3]})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code_of(lambda: bench.beat("A", 1, {})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code_of(lambda: bench.beat("A", 4, {})) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_known_member_that_joins_again_keeps_its_state() -> None:
    bench = settled("A")
    bench.join("B")
    bench.beat("A", 2)
    assert bench.group is not None and bench.group.members["A"].state is MemberState.UNREVOKED
    assert bench.told(bench.join("A")) == (3, {"t": [0, 1]}), "it owns nothing, so it gave everything back"


# ---------------------------------------------------------------- what raises the epoch


RAISES: list[tuple[str, int, Callable[[Bench], Any]]] = [
    ("other topics", 1, lambda b: b.beat("A", 2, topics=["u"])),
    ("the same topics", 0, lambda b: b.beat("A", 2, topics=["t"])),
    ("a new rack", 0, lambda b: b.beat("A", 2, rack="r")),
    ("another timeout", 0, lambda b: b.beat("A", 2, timeout_ms=5)),
    ("another host", 0, lambda b: b.beat("A", 2, client_host="/other")),
    ("an assignor that is the group's already", 0, lambda b: b.beat("A", 2, assignor="uniform")),
    ("another assignor", 1, lambda b: b.beat("A", 2, assignor="range")),
    ("a regular expression, not resolved yet", 0, lambda b: b.beat("A", 2, regex="u.*")),
    ("a member that leaves", 1, lambda b: b.beat("A", -1)),
    ("a member that is silent", 1, lambda b: b.expire("A")),
]


@pytest.mark.parametrize(("what", "by", "change"), RAISES, ids=[what for what, _, _ in RAISES])
def test_what_raises_the_epoch(what: str, by: int, change: Callable[[Bench], Any]) -> None:
    bench = settled("A", topics={"t": 4, "u": 1})
    change(bench)
    assert bench.group is not None and bench.group.epoch == 2 + by
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_regular_expressions_raise_the_epoch_when_they_are_resolved_and_when_they_go() -> None:
    bench = settled("A", topics={"t": 4, "u1": 1})
    assert bench.told(bench.beat("A", 2, topics=[], regex="u.*")) == (2, {}), "it is not subscribed to t any more"
    settle(bench)
    assert bench.group is not None
    bench.resolve(**{"u.*": ["u1"]})
    assert bench.group.epoch == 4
    assert bench.told(bench.beat("A", 3, {})) == (4, {"u1": [0]})
    bench.resolve(**{"u.*": ["u1"]})
    assert bench.group.epoch == 4, "no news"
    assert bench.told(bench.join("B", None, regex="u.*")) == (5, {}), "one that is known already counts at once"
    bench.beat("B", 5, {}, regex="")
    assert bench.group.epoch == 6 and bench.group.regexes.keys() == {"u.*"}
    bench.beat("A", 4, regex="")
    assert not bench.group.regexes, "nobody is subscribed by it any more"
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_topics_that_come_go_and_grow() -> None:
    bench = settled("A", topics={"t": 1})
    for topics, epoch, told in (
        ({"t": 1, "other": 5}, 2, None),
        ({"t": 2}, 3, {"t": [0, 1]}),
        ({}, 4, {}),
        ({"t": 1}, 5, {"t": [0]}),
    ):
        bench.topics, bench.is_stale = topics, True
        assert bench.group is not None
        assert bench.told(bench.beat("A", bench.group.members["A"].epoch, owned_by(bench, "A"))) == (epoch, told)


def test_nobody_looks_at_topics_that_have_not_changed() -> None:
    bench = settled("A")
    bench.topics = {"t": 8}
    assert bench.told(bench.beat("A", 2)) == (2, None)
    bench.is_stale = True
    assert bench.told(bench.beat("A", 2)) == (3, {"t": list(range(8))})


def test_the_target_is_not_computed_more_often_than_the_group_says() -> None:
    bench = Bench({"t": 2}, config=ConsumerConfig(assignment_interval_ms=1_000))
    assert bench.told(bench.join("A")) == (2, {"t": [0, 1]}), "the first is"
    assert bench.told(bench.join("B")) == (2, {}), "by the last target it has nothing"
    assert bench.group is not None and bench.group.state is ConsumerGroupState.ASSIGNING
    assert bench.told(bench.beat("A", 2)) == (2, None)
    bench.now_ms += 1_000
    assert bench.told(bench.beat("B", 2)) == (3, None)
    assert bench.told(bench.beat("A", 2)) == (2, {"t": [0]})


def test_a_group_that_is_empty_again_computes_its_next_target_at_once() -> None:
    bench = settled("A")
    bench.config = ConsumerConfig(assignment_interval_ms=15_000)
    assert bench.beat("A", -1).member_epoch == -1
    assert bench.group is not None
    assert (bench.group.epoch, bench.group.target_epoch, bench.group.target_timestamp_ms) == (3, 2, 0)
    assert bench.group.state is ConsumerGroupState.EMPTY
    assert bench.told(bench.join("B")) == (4, {"t": [0, 1, 2, 3]}), "it need not wait for the interval"


def test_most_votes_choose_the_assignor() -> None:
    bench = settled("A", "B", "C", topics={"t": 3, "u": 3})
    assert bench.group is not None
    group = bench.group
    assert group.preferred_assignor(("uniform", "range")) == "uniform"
    bench.beat("A", group.members["A"].epoch, assignor="range")
    assert group.preferred_assignor(("uniform", "range")) == "range"
    bench.beat("B", group.members["B"].epoch, assignor="uniform")
    assert group.preferred_assignor(("uniform", "range")) == "uniform", "of equals the first configured"
    bench.beat("C", group.members["C"].epoch, assignor="range")
    assert group.preferred_assignor(("uniform", "range")) == "range"


# ---------------------------------------------------------------- topics given up


def test_an_unsubscribed_topic_is_given_back_at_once() -> None:
    bench = Bench({"t": 2, "u": 2}, config=ConsumerConfig(assignment_interval_ms=15_000))
    bench.join("A", ["t", "u"])
    assert bench.told(bench.beat("A", 2, topics=["t"])) == (2, {"t": [0, 1]}), "though the target is an old one"
    assert bench.group is not None
    member = bench.group.members["A"]
    assert (member.state, member.epoch) == (MemberState.UNREVOKED, 2)
    assert bench.told(bench.beat("A", 2, {"t": [0, 1]})) == (2, None)
    assert bench.group.members["A"].state is MemberState.STABLE
    assert bench.told(bench.beat("A", 2, {"t": [0, 1]}, topics=[])) == (2, {}), "again, while it has to say so"
    assert bench.told(bench.beat("A", 2, topics=["t", "u"])) == (2, None)
    assert bench.told(bench.beat("A", 2, {})) == (2, {"t": [0, 1], "u": [0, 1]}), "the old target counts again"


def test_a_topic_that_is_not_owned_any_more_goes_without_asking() -> None:
    bench = Bench({"t": 2, "u": 2}, config=ConsumerConfig(assignment_interval_ms=15_000))
    bench.join("A", ["t", "u"])
    assert bench.told(bench.beat("A", 2, {"t": [0]}, topics=["t"])) == (2, {"t": [0, 1]})
    assert bench.group is not None and bench.group.members["A"].state is MemberState.STABLE


# ---------------------------------------------------------------- static members


def test_a_static_member_comes_back_under_another_id_to_what_it_had() -> None:
    bench = Bench({"t": 4})
    bench.join("A", instance="i")
    bench.join("B")
    settle(bench)
    assert bench.group is not None
    epoch, had = bench.group.epoch, owned_by(bench, "A")
    bench.beat("A", -2, instance="i")
    away = bench.group.members["A"]
    assert (away.epoch, away.pending, bench.group.epoch) == (-2, {}, epoch)
    assert {since for epochs in away.assigned.values() for since in epochs.values()} == {0}
    assert bench.group.state is ConsumerGroupState.RECONCILING
    assert not bench.timer_orders(TimerKind.SESSION), "its session runs on"
    assert bench.told(bench.join("A2", instance="i")) == (epoch, had)
    assert "A" not in bench.group.members and bench.group.static_ids == {"i": "A2"}
    assert bench.group.epoch == epoch and bench.group.state is ConsumerGroupState.STABLE
    assert code_of(lambda: bench.beat("A", epoch, instance="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_a_static_member_comes_back_under_the_same_id() -> None:
    bench = settled("A", instance="i")
    bench.beat("A", -2, instance="i")
    assert bench.told(bench.join("A", instance="i")) == (2, {"t": [0, 1, 2, 3]})
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_a_static_member_that_comes_back_with_another_assignor_starts_a_rebalance() -> None:
    bench = settled("A", instance="i")
    bench.beat("A", -2, instance="i")
    assert bench.told(bench.join("A2", instance="i", assignor="range"))[0] == 3


def test_a_static_member_comes_back_to_a_full_group() -> None:
    bench = settled("A", instance="i")
    bench.config = replace(bench.config, max_size=1)
    bench.beat("A", -2, instance="i")
    assert bench.join("A2", instance="i").error_code == 0
    assert code_of(lambda: bench.join("B")) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_a_static_member_had_to_give_back_is_free_once_it_left() -> None:
    bench = Bench({"t": 2})
    bench.join("A", instance="i")
    bench.join("B")
    bench.beat("A", 2, instance="i")
    assert bench.told(bench.beat("B", 3)) == (3, None)
    bench.beat("A", -2, instance="i")
    assert bench.timer_orders(TimerKind.REBALANCE) == [("A", None)]
    assert bench.told(bench.beat("B", 3)) == (3, {"t": [1]})


# ---------------------------------------------------------------- being late


def test_who_does_not_give_back_in_time_is_put_out() -> None:
    bench = settled("A")
    bench.join("B")
    bench.beat("A", 2)
    assert not bench.expire("A", TimerKind.REBALANCE, 1), "a timer of an epoch it has left"
    assert bench.expire("A", TimerKind.REBALANCE, 2)
    assert bench.group is not None and list(bench.group.members) == ["B"]
    assert bench.told(bench.beat("B", 3)) == (4, {"t": [0, 1, 2, 3]})
    assert not bench.expire("A"), "it is gone"
    assert not Bench().expire("A")


def test_who_gave_back_is_not_put_out() -> None:
    bench = settled("A")
    bench.join("B")
    bench.beat("A", 2)
    bench.beat("A", 2, {"t": [0, 1]})
    assert not bench.expire("A", TimerKind.REBALANCE, 2)


def test_a_state_of_a_later_server() -> None:
    """Whoever is in it has to begin anew, with nothing."""
    bench = settled("A")
    assert bench.group is not None
    member = bench.group.members["A"]
    value = replace(member.current_value(), state=9)
    bench.replay(records.encode_key(records.CurrentKey(group="g", member_id="A")), records.encode_value(value))
    assert bench.group.members["A"].state is MemberState.UNKNOWN
    for owned in (None, {"t": [0]}):
        assert code_of(lambda owned=owned: bench.beat("A", 2, owned)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.told(bench.join("A")) == (2, {"t": [0, 1, 2, 3]})
    assert bench.group.members["A"].state is MemberState.STABLE


# ---------------------------------------------------------------- every way to be refused


REFUSED: list[tuple[str, ErrorCode, Callable[[Bench], Any]]] = [
    ("no member id", ErrorCode.INVALID_REQUEST, lambda b: b.join("")),
    ("no member id, old client", ErrorCode.INVALID_REQUEST, lambda b: b.beat("", 1, version=0)),
    ("no member id, old client that leaves", ErrorCode.INVALID_REQUEST, lambda b: b.beat("", -1, version=0)),
    (
        "no member id, old client that leaves for a while",
        ErrorCode.FENCED_INSTANCE_ID,
        lambda b: b.beat("", -2, instance="i", version=0),
    ),
    ("an empty instance id", ErrorCode.INVALID_REQUEST, lambda b: b.join("C", instance=" ")),
    ("an empty rack", ErrorCode.INVALID_REQUEST, lambda b: b.join("C", rack="")),
    ("joining without a timeout", ErrorCode.INVALID_REQUEST, lambda b: b.beat("C", 0, {}, topics=["t"])),
    ("joining with null", ErrorCode.INVALID_REQUEST, lambda b: b.beat("C", 0, topics=["t"], timeout_ms=1)),
    (
        "joining with partitions",
        ErrorCode.INVALID_REQUEST,
        lambda b: b.beat("C", 0, {"t": [0]}, topics=["t"], timeout_ms=1),
    ),
    ("joining without a subscription", ErrorCode.INVALID_REQUEST, lambda b: b.beat("C", 0, {}, timeout_ms=1)),
    ("leaving for a while without an instance", ErrorCode.INVALID_REQUEST, lambda b: b.beat("A", -2)),
    ("an epoch of no meaning", ErrorCode.INVALID_REQUEST, lambda b: b.beat("A", -3)),
    ("an unknown assignor", ErrorCode.UNSUPPORTED_ASSIGNOR, lambda b: b.join("C", assignor="mine")),
    ("a full group", ErrorCode.GROUP_MAX_SIZE_REACHED, lambda b: b.join("C")),
    ("a full group, a new instance", ErrorCode.GROUP_MAX_SIZE_REACHED, lambda b: b.join("C", instance="j")),
    ("a full group, whoever it is", ErrorCode.GROUP_MAX_SIZE_REACHED, lambda b: b.beat("C", 1)),
    ("an unknown member that leaves", ErrorCode.UNKNOWN_MEMBER_ID, lambda b: b.beat("C", -1)),
    ("an unknown instance", ErrorCode.UNKNOWN_MEMBER_ID, lambda b: b.beat("A", 2, instance="j")),
    ("an unknown instance that leaves", ErrorCode.UNKNOWN_MEMBER_ID, lambda b: b.beat("A", -1, instance="j")),
    ("another's instance", ErrorCode.FENCED_INSTANCE_ID, lambda b: b.beat("B", 3, instance="i")),
    ("another's instance that leaves", ErrorCode.FENCED_INSTANCE_ID, lambda b: b.beat("B", -2, instance="i")),
    ("an instance in use", ErrorCode.UNRELEASED_INSTANCE_ID, lambda b: b.join("B", instance="i")),
    ("its own instance", ErrorCode.UNRELEASED_INSTANCE_ID, lambda b: b.join("A", instance="i")),
    ("too new an epoch", ErrorCode.FENCED_MEMBER_EPOCH, lambda b: b.beat("A", 9)),
    ("too old an epoch", ErrorCode.FENCED_MEMBER_EPOCH, lambda b: b.beat("A", 1)),
    ("a bad expression", ErrorCode.INVALID_REGULAR_EXPRESSION, lambda b: b.beat("A", 3, regex="(")),
    ("a bad expression when joining", ErrorCode.INVALID_REGULAR_EXPRESSION, lambda b: b.beat("A", 3, regex="a(?=b)")),
]


@pytest.mark.parametrize(("what", "code", "call"), REFUSED, ids=[what for what, _, _ in REFUSED])
def test_every_way_to_be_refused(what: str, code: ErrorCode, call: Callable[[Bench], Any]) -> None:
    bench = Bench({"t": 4})
    bench.join("A", instance="i")
    bench.join("B")
    settle(bench)
    bench.config = replace(bench.config, max_size=2)
    before = picture(bench.group), len(bench.log)
    assert code_of(lambda: call(bench)) is code
    assert (picture(bench.group), len(bench.log)) == before


def test_an_unknown_member_of_a_group_with_room() -> None:
    assert code_of(lambda: settled("A").beat("C", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_there_is_no_such_group(epoch: int) -> None:
    assert code_of(lambda: Bench().beat("A", epoch, instance="i")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_assignor_that_fails() -> None:
    bench = settled("A")
    bench.topics = {"t": 5}
    bench.is_stale = True

    def broken(group: Any) -> Any:
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            __import__("bmq.coordinator.consumer.epochs", fromlist=["ASSIGNORS"]).ASSIGNORS, "uniform", broken
        )
        assert code_of(lambda: bench.beat("A", 2)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.told(bench.beat("A", 2)) == (3, {"t": [0, 1, 2, 3, 4]})
