"""The rules of Kafka's classic group protocol, one by one."""

from __future__ import annotations

from functools import partial

import pytest

from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.classic.request_checks import check_offset_commit
from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.wire import STRING_BYTES_MAX
from tests.unit.coordinator.classic.group_bench import (
    REBALANCE_MS,
    SESSION_MS,
    GroupBench,
    durable_picture,
    subscription,
)

pytestmark = pytest.mark.unit

DELAY_MS = 3_000


def test_a_dynamic_member_of_v4_gets_its_id_first() -> None:
    bench = GroupBench()
    first = bench.join(version=4, client_id="app")
    assert (first.error, first.response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-u1")
    assert bench.group.state is GroupState.EMPTY
    second = bench.join("app-u1", version=4)
    assert second.is_waiting
    assert bench.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(("version", "instance_id"), [(3, None), (5, "i")])
def test_old_and_static_members_join_at_once(version: int, instance_id: str | None) -> None:
    bench = GroupBench()
    call = bench.join(version=version, instance_id=instance_id)
    bench.pass_time(DELAY_MS)
    assert call.error == ErrorCode.NONE
    assert call.response.member_id.startswith("client-" if instance_id is None else "i-")


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u20ac"])
@pytest.mark.parametrize(("version", "is_static"), [(0, False), (9, False), (9, True)])
def test_member_ids_made_of_the_longest_names_fit_into_a_string(letter: str, version: int, is_static: bool) -> None:
    """Else its own requests, its group's record and the answer to its group's leader could not be written."""
    longest = letter * (STRING_BYTES_MAX // len(letter.encode()))
    bench = GroupBench()
    name = {"instance_id": longest} if is_static else {"client_id": longest}
    join = bench.join_known if version and not is_static else bench.join
    call = join(version=version, **name)  # type: ignore[arg-type]
    bench.pass_time(DELAY_MS)
    member_id = call.response.member_id
    assert member_id.startswith(letter * 10_000) and member_id.endswith(("-u1", "-u2"))
    assert STRING_BYTES_MAX - 2 <= len(member_id.encode()) <= STRING_BYTES_MAX
    assert bench.sync(member_id, 1, {member_id: b"all"}).error == ErrorCode.NONE
    assert encode("response", ApiKey.JOIN_GROUP, 5, call.response)


def test_a_pending_member_that_never_comes_is_forgotten() -> None:
    bench = GroupBench()
    bench.join()
    assert bench.group.members.pending
    bench.pass_time(SESSION_MS)
    assert not bench.group.members.pending
    assert bench.group.is_unused
    assert bench.group.wake_ms == NEVER_MS


def test_member_ids_are_not_given_out_without_end() -> None:
    bench = GroupBench(group_pending_members_max=2)
    errors = [bench.join().error for _ in range(3)]
    assert errors == [ErrorCode.MEMBER_ID_REQUIRED] * 2 + [ErrorCode.GROUP_MAX_SIZE_REACHED]
    bench.pass_time(SESSION_MS)
    assert bench.join().error == ErrorCode.MEMBER_ID_REQUIRED


def test_first_rebalance_waits_for_latecomers_and_gives_the_roster_to_the_leader() -> None:
    bench = GroupBench()
    one = bench.join_known(protocols=[("range", b"1")])
    bench.pass_time(DELAY_MS - 1)
    two = bench.join_known(protocols=[("range", b"2")])
    bench.pass_time(1)
    assert one.is_waiting
    bench.pass_time(DELAY_MS)
    assert one.response.generation_id == two.response.generation_id == 1
    assert one.response.leader == two.response.leader == one.response.member_id
    roster = {member.member_id: member.metadata for member in one.response.members}
    assert roster == {one.response.member_id: b"1", two.response.member_id: b"2"}
    assert two.response.members == ()
    assert (one.response.protocol_type, one.response.protocol_name) == ("consumer", "range")


def test_latecomers_cannot_put_off_the_first_rebalance_past_the_rebalance_timeout() -> None:
    bench = GroupBench()
    first = bench.join_known(rebalance_ms=7_000)
    for _ in range(3):
        bench.pass_time(DELAY_MS - 1)
        bench.join_known(rebalance_ms=7_000)
    assert first.error == ErrorCode.NONE


def test_assignments_reach_everybody_once_durable() -> None:
    bench = GroupBench(is_log_instant=False)
    calls = [bench.join_known() for _ in range(2)]
    bench.pass_time(DELAY_MS * 3)
    leader, follower = (call.response.member_id for call in calls)
    waiting = bench.sync(follower, 1)
    leading = bench.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert waiting.is_waiting
    assert leading.is_waiting
    assert bench.group.state is GroupState.COMPLETING_REBALANCE
    bench.make_durable()
    assert (waiting.response.assignment, leading.response.assignment) == (b"F", b"L")
    assert (waiting.response.protocol_type, waiting.response.protocol_name) == ("consumer", "range")
    assert bench.group.state is GroupState.STABLE
    assert bench.sync(follower, 1).response.assignment == b"F"


def test_who_gets_nothing_from_the_leader_gets_an_empty_assignment() -> None:
    bench = GroupBench()
    calls = [bench.join_known() for _ in range(2)]
    bench.pass_time(DELAY_MS * 3)
    leader, follower = (call.response.member_id for call in calls)
    waiting = bench.sync(follower, 1)
    bench.sync(leader, 1, {leader: b"L"})
    assert (waiting.error, waiting.response.assignment) == (ErrorCode.NONE, b"")


def test_a_member_that_joins_while_the_assignment_is_written_wins() -> None:
    bench = GroupBench(is_log_instant=False)
    (call,) = [bench.join_known()]
    bench.pass_time(DELAY_MS)
    leading = bench.sync(call.response.member_id, 1, {})
    late = bench.join_known()
    assert leading.error == ErrorCode.REBALANCE_IN_PROGRESS
    bench.make_durable()
    assert bench.group.state is GroupState.PREPARING_REBALANCE
    again = bench.join(call.response.member_id)
    assert again.response.generation_id == late.response.generation_id == 2


def test_a_refused_assignment_is_everybodys_error_and_a_new_rebalance() -> None:
    bench = GroupBench(is_log_instant=False)
    call = bench.join_known()
    bench.pass_time(DELAY_MS)
    leading = bench.sync(call.response.member_id, 1, {})
    bench.refuse(ErrorCode.NOT_COORDINATOR)
    assert leading.error == ErrorCode.NOT_COORDINATOR
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_the_protocol_most_want_among_those_all_speak() -> None:
    bench = GroupBench()
    bench.join_known(protocols=[("range", b""), ("sticky", b""), ("own", b"")])
    bench.join_known(protocols=[("sticky", b""), ("range", b"")])
    call = bench.join_known(protocols=[("sticky", b""), ("range", b"")])
    bench.pass_time(DELAY_MS * 4)
    assert call.response.protocol_name == "sticky"


@pytest.mark.parametrize(
    "arguments", [{"protocols": [("other", b"")]}, {"protocol_type": "connect"}, {"protocols": []}]
)
def test_a_member_that_shares_no_protocol_is_refused(arguments: dict[str, object]) -> None:
    bench = GroupBench()
    bench.stable(1)
    assert bench.join(**arguments).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]


def test_an_empty_group_needs_protocols() -> None:
    bench = GroupBench()
    assert bench.join(protocols=[]).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join(protocol_type="").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_group_is_full() -> None:
    bench = GroupBench(group_max_size=2)
    ids = bench.stable(2)
    assert bench.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join(ids[0]).is_waiting


def test_a_follower_that_rejoins_unchanged_disturbs_nobody_and_a_leader_does() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    again = bench.join(follower)
    assert (again.error, again.response.generation_id) == (ErrorCode.NONE, 1)
    assert bench.group.state is GroupState.STABLE
    assert bench.join(leader).is_waiting
    assert bench.group.state is GroupState.PREPARING_REBALANCE
    assert bench.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_with_a_new_subscription_rebalances() -> None:
    bench = GroupBench()
    _, follower = bench.stable(2)
    assert bench.join(follower, protocols=[("range", b"new"), ("sticky", b"new")]).is_waiting
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_a_lost_join_answer_is_given_again_while_completing() -> None:
    bench = GroupBench()
    call = bench.join_known()
    bench.pass_time(DELAY_MS)
    again = bench.join(call.response.member_id)
    assert again.response == call.response
    assert len(again.response.members) == 1


def test_members_that_do_not_rejoin_in_time_are_out() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    again = bench.join(leader)
    for _ in range(int(REBALANCE_MS / SESSION_MS) * 2 - 1):
        bench.pass_time(SESSION_MS / 2)
        assert bench.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert again.is_waiting
    bench.pass_time(SESSION_MS / 2)
    assert (again.error, len(again.response.members)) == (ErrorCode.NONE, 1)
    assert bench.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_stays_away_loses_its_place() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    bench.leave((leader, None))
    again = bench.join(follower)
    assert again.response.leader == follower


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    bench.pass_time(SESSION_MS - 1)
    assert bench.heartbeat(leader, 1) == ErrorCode.NONE
    bench.pass_time(1)
    assert follower not in bench.group.members
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_an_answer_needs_no_heartbeat() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    again = bench.join(leader)
    bench.pass_time(SESSION_MS + 1)  # the follower is gone by now, the leader waits
    assert again.response.generation_id == 2
    assert bench.group.members.leader_id == leader
    assert follower not in bench.group.members


def test_a_new_member_whose_client_went_away_does_not_stay_for_ever() -> None:
    bench = GroupBench(group_new_member_join_timeout_ms=20_000)
    leader, _ = bench.stable(2, rebalance_ms=600_000)
    gone = bench.join_known(rebalance_ms=600_000)
    for _ in range(4):
        bench.pass_time(5_000)
        bench.heartbeat(leader, 1)
    assert gone.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    bench = GroupBench()
    calls = [bench.join_known(rebalance_ms=12_000) for _ in range(2)]
    bench.pass_time(DELAY_MS * 3)
    leader, silent = (call.response.member_id for call in calls)
    bench.sync(leader, 1, {})
    assert bench.group.state is GroupState.STABLE
    for _ in range(4):
        bench.pass_time(3_000)
        for name in (leader, silent):
            bench.heartbeat(name, 1)
    assert silent not in bench.group.members
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_is_checked() -> None:
    bench = GroupBench()
    leader, _ = bench.stable(2)
    assert bench.sync("nobody", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.sync(leader, 0).error == ErrorCode.ILLEGAL_GENERATION
    assert bench.sync(leader, 1, protocol_name="other").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync(leader, 1, protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync(leader, 1, protocol_type="consumer", protocol_name="range").error == ErrorCode.NONE
    bench.join(leader)
    assert bench.sync(leader, 1).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeat_is_checked() -> None:
    bench = GroupBench()
    leader, _ = bench.stable(2)
    assert bench.heartbeat(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert bench.heartbeat(leader, 1, "instance") == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_in_a_batch_empties_the_group_and_writes_it_down() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    errors = bench.leave((leader, None), ("nobody", None), (follower, None))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert (bench.group.state, bench.group.generation) == (GroupState.EMPTY, 2)
    assert bench.group.written is not None
    assert bench.group.written.members == ()
    assert durable_picture(bench.restarted()) == durable_picture(bench.group)


def test_a_pending_member_may_leave() -> None:
    bench = GroupBench()
    pending = bench.join().response.member_id
    assert bench.leave((pending, None)) == [ErrorCode.NONE]
    assert bench.group.is_unused


def test_commits_are_checked_and_keep_a_session_alive() -> None:
    bench = GroupBench()
    check = partial(check_offset_commit, bench.group)
    assert check("", None, -1, bench.now_ms) == ErrorCode.NONE
    leader, follower = bench.stable(2)
    assert check("", None, -1, bench.now_ms) == ErrorCode.UNKNOWN_MEMBER_ID
    assert check(leader, None, 0, bench.now_ms) == ErrorCode.ILLEGAL_GENERATION
    assert check("nobody", None, 1, bench.now_ms) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.pass_time(SESSION_MS - 1)
    assert check(leader, None, 1, bench.now_ms) == ErrorCode.NONE
    bench.pass_time(1)
    assert leader in bench.group.members
    assert follower not in bench.group.members
    assert check(leader, None, 1, bench.now_ms) == ErrorCode.NONE  # the last chance before rejoining
    bench.join(leader)
    assert check(leader, None, 2, bench.now_ms) == ErrorCode.REBALANCE_IN_PROGRESS


def static_pair(bench: GroupBench, version: int = 9) -> tuple[str, str]:
    calls = [bench.join(instance_id=name, version=version) for name in ("a", "b")]
    bench.pass_time(DELAY_MS * 3)
    ids = [call.response.member_id for call in calls]
    generation = bench.group.generation
    bench.sync(ids[1], generation, instance_id="b")
    bench.sync(ids[0], generation, {name: f"to {name[0]}".encode() for name in ids}, instance_id="a")
    return ids[0], ids[1]


def test_a_restarted_static_member_takes_up_where_it_was() -> None:
    bench = GroupBench()
    leader, old = static_pair(bench)
    back = bench.join(instance_id="b")
    new = back.response.member_id
    assert (back.error, back.response.generation_id, back.response.skip_assignment) == (ErrorCode.NONE, 1, False)
    assert bench.group.state is GroupState.STABLE
    assert bench.sync(new, 1, instance_id="b").response.assignment == b"to b"
    assert bench.heartbeat(old, 1, "b") == ErrorCode.FENCED_INSTANCE_ID
    assert bench.heartbeat(new, 1, "b") == ErrorCode.NONE
    assert bench.heartbeat(leader, 1, "a") == ErrorCode.NONE
    assert durable_picture(bench.restarted()) == durable_picture(bench.group)


def test_a_restarted_static_leader_skips_assigning_from_v9_and_is_told_of_another_before() -> None:
    bench = GroupBench()
    old, _ = static_pair(bench)
    back = bench.join(instance_id="a", version=9)
    assert back.response.skip_assignment
    assert back.response.leader == back.response.member_id
    assert len(back.response.members) == 2
    earlier = back.response.member_id
    older = bench.join(instance_id="a", version=8)
    assert not older.response.skip_assignment
    assert older.response.leader == earlier != old
    assert older.response.members == ()


def test_a_static_member_whose_return_changes_the_protocol_rebalances() -> None:
    bench = GroupBench()
    static_pair(bench)
    back = bench.join(instance_id="b", protocols=[("sticky", b"")])
    assert back.is_waiting
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_a_static_member_that_returns_while_completing_starts_over() -> None:
    bench = GroupBench()
    calls = [bench.join(instance_id=name) for name in ("a", "b")]
    bench.pass_time(DELAY_MS * 3)
    waiting = bench.sync(calls[1].response.member_id, 1, instance_id="b")
    back = bench.join(instance_id="b")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert back.is_waiting
    again = bench.join(calls[0].response.member_id, instance_id="a")
    assert back.response.generation_id == again.response.generation_id == 2


def test_a_second_process_with_the_same_instance_id_fences_the_waiting_first() -> None:
    bench = GroupBench()
    first = bench.join(instance_id="a")
    second = bench.join(instance_id="a")
    assert first.error == ErrorCode.FENCED_INSTANCE_ID
    bench.pass_time(DELAY_MS)
    assert second.error == ErrorCode.NONE


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_ends() -> None:
    bench = GroupBench()
    leader, away = static_pair(bench)
    bench.group.members.by_id[away].rebalance_timeout_ms = 5_000
    again = bench.join(leader, instance_id="a", rebalance_ms=5_000)
    bench.pass_time(5_000)
    assert again.response.generation_id == 2
    assert away in bench.group.members
    bench.pass_time(SESSION_MS)
    assert away not in bench.group.members


def test_an_administrator_removes_a_static_member_by_name() -> None:
    bench = GroupBench()
    _, gone = static_pair(bench)
    assert bench.leave(("", "b"), ("", "c")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert gone not in bench.group.members
    assert bench.leave((gone, "b")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_refused_replacement_ends_in_a_rebalance() -> None:
    bench = GroupBench()
    static_pair(bench)
    bench.is_log_instant = False
    back = bench.join(instance_id="b")
    assert back.is_waiting
    bench.refuse()
    assert back.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group.state is GroupState.PREPARING_REBALANCE


def test_subscribed_topics_are_known_to_the_group() -> None:
    bench = GroupBench()
    bench.stable(1, protocols=[("range", subscription("orders", "bills"))])
    assert bench.group.topics == {"orders", "bills"}
    assert bench.group.is_subscribed_to("orders")
    assert not bench.group.is_subscribed_to("other")


def test_an_unreadable_subscription_counts_as_subscribed_to_everything() -> None:
    bench = GroupBench()
    bench.stable(1, protocols=[("range", b"\0\0\0\0\0\x09oops")])
    assert bench.group.topics is None
    assert bench.group.is_subscribed_to("anything")


def test_an_oversized_group_rebalances_when_loaded() -> None:
    bench = GroupBench()
    bench.stable(3)
    bench.config = GroupBench(group_max_size=2).config
    assert bench.restarted().state is GroupState.PREPARING_REBALANCE


def test_unloading_tells_everybody_to_look_for_the_coordinator() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2)
    waiting = bench.join(leader)
    bench.perform(bench.group.unload(ErrorCode.NOT_COORDINATOR))
    assert (waiting.error, waiting.response.member_id) == (ErrorCode.NOT_COORDINATOR, leader)
    assert bench.heartbeat(follower, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.join().error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_heartbeat_while_waiting_for_the_assignment_sets_no_deadline_without_a_wake_up() -> None:
    bench = GroupBench(is_log_instant=False)
    call = bench.join(instance_id="i")
    bench.pass_time(DELAY_MS)
    member_id = call.response.member_id
    bench.sync(member_id, 1, {}, instance_id="i")
    bench.pass_time(SESSION_MS)
    bench.heartbeat(member_id, 1, "i")
    assert bench.group.wake_ms <= bench.group.members.by_id[member_id].deadline_ms


def test_a_static_member_whose_assignment_was_refused_does_not_stay_for_ever() -> None:
    bench = GroupBench(is_log_instant=False)
    call = bench.join(instance_id="i")
    bench.pass_time(DELAY_MS)
    bench.sync(call.response.member_id, 1, {}, instance_id="i")
    bench.pass_time(SESSION_MS)
    bench.refuse()
    bench.pass_time(REBALANCE_MS)
    assert bench.group.state is GroupState.EMPTY


def test_a_session_that_became_shorter_counts() -> None:
    bench = GroupBench()
    leader, follower = bench.stable(2, session_ms=60_000)
    bench.join(follower, session_ms=6_000, protocols=[("range", b"new")])
    bench.join(leader, session_ms=6_000, protocols=[("range", b"new")])
    bench.pass_time(3_000)
    assert bench.heartbeat(leader, 2) == ErrorCode.NONE
    bench.pass_time(3_000)
    assert follower not in bench.group.members
    bench.pass_time(3_000)
    assert leader not in bench.group.members


def test_an_absent_static_member_without_patience_is_no_busy_loop() -> None:
    bench = GroupBench()
    bench.join(version=5, instance_id="i", rebalance_ms=0)
    other = bench.join(version=3)
    bench.pass_time(DELAY_MS)
    bench.leave((other.response.member_id, None))
    before_ms = bench.now_ms
    bench.pass_time(1)
    assert bench.group.wake_ms >= before_ms + 500
    bench.pass_time(SESSION_MS)
    assert not bench.group.members
