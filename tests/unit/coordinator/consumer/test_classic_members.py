"""Classic members of a consumer group, and groups that change their protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroupState
from bmq.coordinator.consumer.consumer_protocol import decode_assignment
from bmq.coordinator.consumer.departures import remove_members
from bmq.coordinator.consumer.member import MemberState
from bmq.coordinator.modern.member_timers import TimerKind
from bmq.coordinator.runtime.moment import Moment
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.group_records import GroupMetadataValue, MemberMetadata
from tests.unit.coordinator.consumer.bench import GROUP_ID, REBALANCE_MS, Bench, code_of, picture, replayed

pytestmark = pytest.mark.unit


def subscription(*topics: str, owned: dict[str, Iterable[int]] | None = None, version: int = 1) -> bytes:
    """ConsumerProtocolSubscription of version 0 or 1."""
    out = version.to_bytes(2, "big") + named(topics) + b"\xff\xff\xff\xff"
    return out if version == 0 else out + partitions(owned or {})


def assignment(owned: dict[str, Iterable[int]], user_data: bytes | None = None) -> bytes:
    data = b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4, "big") + user_data
    return b"\0\x01" + partitions(owned) + data


def named(topics: Iterable[str]) -> bytes:
    topics = list(topics)
    return len(topics).to_bytes(4, "big") + b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)


def partitions(owned: dict[str, Iterable[int]]) -> bytes:
    out = len(owned).to_bytes(4, "big")
    for topic, places in owned.items():
        numbers = list(places)
        out += len(topic).to_bytes(2, "big") + topic.encode() + len(numbers).to_bytes(4, "big")
        out += b"".join(number.to_bytes(4, "big") for number in numbers)
    return out


def has(synced: Any) -> dict[str, list[int]]:
    return {part.topic: list(part.partitions) for part in decode_assignment(synced.assignment).assigned}


def mixed(count: int = 4, instance: str | None = None) -> Bench:
    """A of the new protocol and C of the classic one, both settled; `instance`: A's."""
    bench = Bench({"t": count})
    bench.join("A", instance=instance)
    joined = bench.classic_join("C", subscription("t"))
    assert joined is not None and joined.generation_id == 3
    bench.beat("A", 2)
    bench.beat("A", 2, {"t": range(count // 2)})
    again = bench.classic_join("C", subscription("t"))
    assert again is not None and again.generation_id == 3
    assert has(bench.classic_sync("C", 3)) == {"t": list(range(count // 2, count))}
    assert bench.group is not None and bench.group.state is ConsumerGroupState.STABLE
    return bench


def test_a_join_is_answered_at_once_and_nobody_leads() -> None:
    bench = Bench({"t": 4})
    bench.join("A")
    answer = bench.classic_join("C", subscription("t"), names=("range", "sticky"))
    assert answer is not None
    assert (answer.error_code, answer.member_id, answer.generation_id, answer.protocol_type) == (0, "C", 3, "consumer")
    assert (answer.protocol_name, answer.leader, list(answer.members)) == ("range", "", [])
    assert bench.timer_orders(TimerKind.SYNC) == [("C", REBALANCE_MS)]
    assert bench.timer_orders(TimerKind.SESSION) == [("C", 10_000)]
    assert bench.timer_orders(TimerKind.JOIN) == [("C", None)]
    assert has(bench.classic_sync("C", 3)) == {}, "A has everything still"
    assert bench.classic_beat("C", 3) is ErrorCode.NONE, "and it has to wait"
    bench.beat("A", 2)
    bench.beat("A", 2, {"t": [0, 1]})
    assert bench.classic_beat("C", 3) is ErrorCode.REBALANCE_IN_PROGRESS, "what it waits for is free"
    assert bench.timer_orders(TimerKind.JOIN) == [("C", REBALANCE_MS)]


def test_what_a_join_says_it_owns_is_what_it_has_not_given_back() -> None:
    bench = mixed()
    bench.join("B")
    assert bench.classic_beat("C", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(lambda: bench.classic_sync("C", 3)) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = bench.classic_join("C", subscription("t", owned={"t": [2, 3]}))
    assert rejoined is not None and rejoined.generation_id == 3, "it has to give one back first"
    assert bench.group is not None and bench.group.members["C"].state is MemberState.UNREVOKED
    assert not bench.timer_orders(TimerKind.REBALANCE) or bench.timer_orders(TimerKind.REBALANCE) == [("C", None)]
    assert len(has(bench.classic_sync("C", 3))["t"]) == 1
    assert bench.classic_beat("C", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    kept = has(bench.classic_sync("C", 3))
    rejoined = bench.classic_join("C", subscription("t", owned=dict(kept)))
    assert rejoined is not None and rejoined.generation_id == 4
    assert has(bench.classic_sync("C", 4)) == kept
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_a_classic_join_has_no_regular_expression() -> None:
    bench = Bench({"t": 2})
    bench.join("A")
    bench.join("C", None, regex="t.*")
    bench.resolve(**{"t.*": ["t"]})
    bench.classic_join("C", subscription("t"))
    assert bench.group is not None
    assert (bench.group.members["C"].topic_regex, bench.group.regexes) == ("", {})


JOIN_REFUSED: list[tuple[str, ErrorCode, Callable[[Bench], Any]]] = [
    ("another protocol type", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, lambda b: join(b, protocol_type="connect")),
    ("no common protocol", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, lambda b: join(b, names=("sticky",))),
    ("no protocol", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, lambda b: join(b, names=())),
    ("a malformed subscription", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, lambda b: b.classic_join("D", b"\0\1\0")),
    ("no subscription", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, lambda b: b.classic_join("D", b"")),
    ("an unknown instance", ErrorCode.UNKNOWN_MEMBER_ID, lambda b: join(b, member_id="D", instance="j")),
    ("another's instance", ErrorCode.FENCED_INSTANCE_ID, lambda b: join(b, member_id="D", instance="i")),
]


def join(bench: Bench, member_id: str = "D", **fields: Any) -> Any:
    return bench.classic_join(member_id, subscription("t"), **fields)


@pytest.mark.parametrize(("what", "code", "call"), JOIN_REFUSED, ids=[what for what, _, _ in JOIN_REFUSED])
def test_every_way_to_be_refused(what: str, code: ErrorCode, call: Callable[[Bench], Any]) -> None:
    bench = mixed()
    bench.join("S", instance="i")
    before = picture(bench.group)
    assert code_of(lambda: call(bench)) is code
    assert picture(bench.group) == before


def test_a_join_that_policy_or_size_forbids() -> None:
    bench = mixed()
    bench.config = replace(bench.config, migration_policy="disabled")
    assert code_of(lambda: join(bench)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    bench.config = replace(bench.config, migration_policy="upgrade", max_size=2)
    assert code_of(lambda: join(bench)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(bench, "C").error_code == 0


def test_a_dynamic_member_asks_for_an_id_first() -> None:
    bench = mixed()
    before = picture(bench.group)
    asked = join(bench, "", version=4)
    assert (asked.error_code, asked.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "made-up")
    assert picture(bench.group) == before
    assert join(bench, "", version=3).error_code == 0
    assert join(bench, "", instance="i", new_id="static").error_code == 0


def test_syncs_and_heartbeats_that_are_refused() -> None:
    bench = mixed()
    bench.join("S", instance="i")
    for call in (bench.classic_beat, bench.classic_sync):
        for member_id, generation, instance, code in (
            ("X", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("A", 3, None, ErrorCode.UNKNOWN_MEMBER_ID),  # of the new protocol
            ("C", 3, "j", ErrorCode.UNKNOWN_MEMBER_ID),
            ("C", 3, "i", ErrorCode.FENCED_INSTANCE_ID),
            ("C", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ):
            fields = (
                {}
                if instance is None
                else {"instance" if call == bench.classic_beat else "group_instance_id": instance}
            )
            assert code_of(lambda c=call, m=member_id, g=generation, f=fields: c(m, g, **f)) is code
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        refused = code_of(lambda f=fields: bench.classic_sync("C", 3, **f))
        assert refused is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_leaving_by_any_name() -> None:
    bench = mixed()
    bench.join("S", instance="i")
    assert bench.classic_leave(("X", None), ("", None), ("", "j"), ("A", "i"), ("", "i"), ("S", None)) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert bench.group is not None and bench.group.members.keys() == {"A", "C"} and bench.group.epoch == 5
    assert bench.classic_leave(("C", None)) == [ErrorCode.NONE]
    assert bench.group.members.keys() == {"A"} and bench.became_classic is None


class Name(str):
    """Counts how often names are compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Name.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_many_that_leave_at_once_are_each_looked_for_once() -> None:
    """An administrator's tool names all members of a group in one LeaveGroup."""
    count = 100
    bench = Bench()
    for name in ("A", "B"):
        bench.join(name)
    for number in range(count):
        bench.classic_join(f"C{number}", subscription("t"))
    leaving = [Name(f"C{number}") for number in range(count)]
    bench.decide(lambda draft: remove_members(draft, leaving, bench.context))
    assert bench.group is not None
    assert bench.group.members.keys() == {"A", "B"}
    assert Name.comparisons < 10 * count


# ---------------------------------------------------------------- upwards


def classic_group(
    *members: str, user_data: bytes | None = None, protocol_type: str = "consumer", instance_id: str | None = None
) -> Group:
    """Stable, of generation 7; each member has a partition of t."""
    group = Group(GROUP_ID, CoordinatorConfig())
    told = [
        MemberMetadata(
            member_id=member_id,
            group_instance_id=instance_id,
            client_id="c",
            rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=10_000,
            subscription=subscription("t"),
            assignment=assignment({"t": [number]}, user_data),
        )
        for number, member_id in enumerate(members)
    ]
    leader = members[0] if members else None
    protocol = "range" if members else None
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=7, protocol=protocol, leader=leader, members=told
    )
    group.load(value, Moment(0.0, 0))
    return group


def test_a_classic_group_is_upgraded_with_what_its_members_have() -> None:
    bench = Bench({"t": 2}, classic=classic_group("C", "D"))
    assert bench.told(bench.join("A")) == (8, {})
    group = bench.group
    assert group is not None and (group.epoch, group.target_epoch) == (8, 8)
    assert bench.log[0] == (b"\0\x02\0\x01g", None), "the classic group is no more"
    member = group.members["C"]
    assert (member.epoch, member.state, member.assigned) == (7, MemberState.STABLE, {bench.topic_id("t"): {0: 7}})
    assert sorted(bench.timer_orders(TimerKind.SESSION)) == [("A", 45_000), ("C", 10_000), ("D", 10_000)]
    assert bench.classic_beat("C", 7) is ErrorCode.REBALANCE_IN_PROGRESS
    assert has(bench.classic_join("C", subscription("t", owned={"t": [0]})) and bench.classic_sync("C", 8))
    assert picture(replayed(bench.log)) == picture(group)


def test_an_upgraded_group_looks_at_its_topics_even_if_nobody_subscribes_anew() -> None:
    """They may have changed since the classic group's leader assigned them."""
    bench = Bench({"t": 2}, classic=classic_group("C", instance_id="i"))
    assert bench.told(bench.join("A", instance="i")) == (8, {"t": [0, 1]})
    assert bench.told(bench.beat("A", 8)) == (8, None)
    assert bench.group is not None
    assert bench.group.epoch == 8


def test_a_classic_group_whose_first_members_are_still_joining_is_upgraded() -> None:
    """It has chosen no protocol yet, and nobody has an assignment."""
    group = classic_group("C")
    group.protocol_name, group.generation = None, 0
    group.members.by_id["C"].assignment = b""
    bench = Bench({"t": 2}, classic=group)
    assert bench.told(bench.join("A"))[0] == 2
    assert bench.group is not None
    member = bench.group.members["C"]
    assert (member.topic_names, member.epoch, member.assigned) == (frozenset({"t"}), 1, {})


def test_an_upgraded_group_waits_for_what_a_member_has_still_to_give_back() -> None:
    """A cooperative member revokes what its new assignment lacks only when it has received that."""
    group = classic_group("C", "D")
    for member_id, owned in (("C", [0, 2, 3]), ("D", [1, 3])):
        group.members.by_id[member_id].protocols = (("range", subscription("t", owned={"t": owned})),)
    bench = Bench({"t": 4}, classic=group)
    assert bench.told(bench.join("A")) == (8, {})
    assert bench.group is not None
    member = bench.group.members["C"]
    assert member.state is MemberState.UNREVOKED
    assert member.pending == {bench.topic_id("t"): {2: 7, 3: 7}}
    assert bench.group.members["D"].pending == {}, "C said it first"
    assert picture(replayed(bench.log)) == picture(bench.group)
    assert has(bench.classic_sync("C", 7)) == {"t": [0]}
    assert bench.classic_beat("C", 7) is ErrorCode.REBALANCE_IN_PROGRESS
    bench.classic_join("C", subscription("t", owned={"t": [0]}))
    assert bench.told(bench.beat("A", 8))[1] == {"t": [2, 3]}


def test_what_a_member_says_it_owned_does_not_take_another_members_assignment() -> None:
    group = classic_group("C", "D")
    group.members.by_id["C"].protocols = (("range", subscription("t", owned={"t": [0, 1]})),)
    bench = Bench({"t": 2}, classic=group)
    bench.join("A")
    assert bench.group is not None
    assert (bench.group.members["C"].state, bench.group.members["C"].pending) == (MemberState.STABLE, {})


def test_a_group_whose_members_have_the_same_partition_is_not_upgraded() -> None:
    """A leader may assign as it likes, but in a consumer group a partition has one holder."""
    group = classic_group("C", "D")
    group.members.by_id["D"].assignment = assignment({"t": [0]})
    bench = Bench({"t": 2}, classic=group)
    assert code_of(lambda: bench.join("A")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert not bench.log


@pytest.mark.parametrize(
    ("what", "classic", "config"),
    [
        ("policy", {}, {"migration_policy": "downgrade"}),
        ("policy", {}, {"migration_policy": "disabled"}),
        ("protocol type", {"protocol_type": "connect"}, {}),
        ("size", {}, {"max_size": 1}),
        ("user data", {"user_data": b"x"}, {}),
    ],
)
def test_upgrades_that_are_refused(what: str, classic: dict[str, Any], config: dict[str, Any]) -> None:
    bench = Bench({"t": 2}, classic=classic_group("C", "D", **classic))
    bench.config = replace(bench.config, **config)
    assert code_of(lambda: bench.join("A")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert not bench.log


def test_malformed_data_is_not_upgraded() -> None:
    group = classic_group("C")
    group.members.by_id["C"].assignment = b"\0\1\0"
    bench = Bench({"t": 2}, classic=group)
    assert code_of(lambda: bench.join("A")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_whoever_is_not_joining_finds_no_consumer_group() -> None:
    bench = Bench({"t": 2}, classic=classic_group("C"))
    assert code_of(lambda: bench.beat("C", 7)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_is_replaced_whatever_the_policy() -> None:
    bench = Bench({"t": 2}, classic=classic_group())
    bench.config = replace(bench.config, migration_policy="disabled")
    assert bench.told(bench.join("A")) == (2, {"t": [0, 1]})
    assert bench.log[0] == (b"\0\x02\0\x01g", None)


def test_an_empty_consumer_group_makes_place_whatever_the_policy() -> None:
    bench = Bench({"t": 2})
    bench.join("A")
    bench.beat("A", -1)
    bench.config = replace(bench.config, migration_policy="disabled")
    assert code_of(lambda: bench.classic_join("C", subscription("t"))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.classic_join("", subscription("t")) is None
    assert bench.group is None
    assert bench.classic_join("", subscription("t")) is None, "there is none"


# ---------------------------------------------------------------- downwards


@pytest.mark.parametrize("leaves", ["leave", "expire", "leave group"])
def test_when_the_last_of_the_new_protocol_is_gone_the_group_is_classic_again(leaves: str) -> None:
    bench = mixed()
    match leaves:
        case "leave":
            assert bench.beat("A", -1).member_epoch == -1
        case "expire":
            assert bench.expire("A")
        case _:
            assert bench.classic_leave(("A", None)) == [ErrorCode.NONE]
    value = bench.became_classic
    assert value is not None and bench.group is None
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 3, "range", None)
    (member,) = value.members
    assert (member.member_id, member.session_timeout_ms, member.subscription) == ("C", 10_000, subscription("t"))
    assert [(p.topic, list(p.partitions)) for p in decode_assignment(member.assignment).assigned] == [("t", [2, 3])]
    assert bench.draft is not None and bench.draft.rebalances
    tombstones = {key for key, told in bench.log if told is None}
    values = {key for key, told in bench.log if told is not None}
    assert values - tombstones == {b"\0\x02\0\x01g"}, "nothing of the consumer group is left"


@pytest.mark.parametrize("has_heard", [False, True], ids=["before it has heard of that", "while it gives one back"])
def test_a_group_that_becomes_classic_keeps_what_its_members_still_have_to_give_back(has_heard: bool) -> None:
    """It may be upgraded again before they have heard of anything, and nobody else may be given these partitions then."""
    bench = mixed(6)
    bench.join("B")
    assert bench.group is not None
    assert [len(partitions) for partitions in bench.group.targets["C"].values()] == [2]
    if has_heard:
        bench.classic_join("C", subscription("t", owned={"t": [3, 4, 5]}))
        assert bench.group.members["C"].state is MemberState.UNREVOKED
    bench.beat("B", -1)
    bench.beat("A", -1)
    value = bench.became_classic
    assert value is not None
    (member,) = value.members
    assert [(p.topic, list(p.partitions)) for p in decode_assignment(member.assignment).assigned] == [("t", [3, 4, 5])]


@pytest.mark.parametrize("config", [{"migration_policy": "upgrade"}, {"migration_policy": "disabled"}])
def test_downgrades_that_policy_forbids(config: dict[str, Any]) -> None:
    bench = mixed()
    bench.config = replace(bench.config, **config)
    bench.beat("A", -1)
    assert bench.group is not None and bench.group.members.keys() == {"C"} and bench.group.epoch == 4
    assert bench.classic_beat("C", 3) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("leaves", ["expire", "comes back classic"])
def test_downgrades_to_a_record_that_is_too_large(leaves: str) -> None:
    """One record has all members of a classic group. A member that is gone must not stay in the group for that."""
    bench = mixed(instance="i")
    for number in range(4):
        bench.classic_join(f"D{number}", subscription("t", *(f"{number}-{n:0200}" for n in range(1_500))))
    if leaves == "expire":
        assert bench.expire("A")
    else:
        answer = bench.classic_join("", subscription("t"), instance="i", new_id="A2")
        assert answer is not None
        assert answer.error_code == 0
    assert bench.became_classic is None
    assert bench.group is not None
    assert "A" not in bench.group.members
    assert bench.group.members.keys() >= {"C", "D0", "D1", "D2", "D3"}
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_downgrades_to_more_members_than_a_classic_group_may_have() -> None:
    bench = mixed()
    bench.classic_size_max = 0
    bench.beat("A", -1)
    assert bench.group is not None and bench.became_classic is None


def test_the_last_to_leave_leaves_an_empty_consumer_group() -> None:
    bench = Bench()
    bench.join("A")
    bench.beat("A", -1)
    assert bench.group is not None and bench.became_classic is None


def test_a_classic_member_that_leaves_does_not_change_the_protocol() -> None:
    bench = mixed()
    bench.config = replace(bench.config, migration_policy="upgrade")
    bench.classic_join("D", subscription("t"))
    bench.beat("A", -1)
    bench.config = replace(bench.config, migration_policy="bidirectional")
    bench.classic_leave(("D", None))
    assert bench.group is not None and bench.became_classic is None


def test_the_last_static_member_comes_back_as_a_classic_one() -> None:
    bench = Bench({"t": 2})
    bench.join("A", instance="i")
    answer = bench.classic_join("", subscription("t"), instance="i", new_id="A2")
    assert answer is not None and (answer.member_id, answer.generation_id) == ("A2", 2)
    value = bench.became_classic
    assert value is not None and value.generation == 2
    assert [member.member_id for member in value.members] == ["A2"]
    assert bench.draft is not None and not bench.draft.rebalances, "everybody has what the target says"
    assert value.leader == "A2"


def test_the_last_static_member_comes_back_as_a_classic_one_with_another_subscription() -> None:
    """What the new target takes from others is nobody's before they have joined again."""
    bench = mixed(instance="i")
    bench.topics["u"] = 2
    answer = bench.classic_join("", subscription("u"), instance="i", new_id="A2")
    assert answer is not None
    assert answer.generation_id == 4
    value = bench.became_classic
    assert value is not None
    assert sorted(member.member_id for member in value.members) == ["A2", "C"]
    assert bench.draft is not None
    assert bench.draft.rebalances


def test_a_static_member_comes_back_as_a_classic_one_among_others() -> None:
    bench = Bench({"t": 2})
    bench.join("A", instance="i")
    bench.join("B")
    answer = bench.classic_join("", subscription("t"), instance="i", new_id="A2")
    assert answer is not None and answer.member_id == "A2"
    assert bench.group is not None and bench.group.members["A2"].classic is not None
    assert bench.group.static_ids == {"i": "A2"}
    assert picture(replayed(bench.log)) == picture(bench.group)


def test_a_classic_member_goes_on_with_the_new_protocol() -> None:
    bench = mixed()
    assert bench.told(bench.join("C")) == (3, {"t": [2, 3]})
    assert bench.group is not None and bench.group.classic_count == 0
    assert bench.timer_orders(TimerKind.JOIN) == bench.timer_orders(TimerKind.SYNC) == [("C", None)]
