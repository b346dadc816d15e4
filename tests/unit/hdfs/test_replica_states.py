"""What closes a block, for any state its replicas may be in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.blocks import DataNode
from bmq.hdfs.config import Address
from bmq.hdfs.replica_states import (
    BytesGone,
    CompleteAsIs,
    RecoverLease,
    Renew,
    Replica,
    ReplicaState,
    SetUpEmpty,
    WaitForNodes,
    agree,
    candidates,
    pieces,
    plan,
)

pytestmark = pytest.mark.unit

CHUNK = 16
A, B, C, D = (DataNode(f"uuid-{name}", Address("h", port), Address("h", port + 10)) for port, name in enumerate("abcd"))


def writable(node: DataNode, *, is_listed: bool = True) -> Replica:
    return Replica(node, ReplicaState.WRITABLE, is_listed=is_listed)


def settled(node: DataNode, length_bytes: int, *, is_bumped: bool = False) -> Replica:
    return Replica(node, ReplicaState.SETTLED, length_bytes, is_bumped)


def absent(node: DataNode) -> Replica:
    return Replica(node, ReplicaState.ABSENT)


def waiting(node: DataNode) -> Replica:
    return Replica(node, ReplicaState.WAITING)


def unreachable(node: DataNode) -> Replica:
    return Replica(node, ReplicaState.UNREACHABLE)


def test_replicas_being_written_get_a_new_stamp_and_the_others_are_left_out() -> None:
    assert plan([writable(A), writable(B), writable(C)]) == Renew((A, B, C))
    assert plan([writable(A), unreachable(B), writable(C)]) == Renew((A, C))
    assert plan([waiting(A), absent(B), writable(C)]) == Renew((C,))


def test_a_finalized_replica_beside_one_being_written_keeps_its_length() -> None:
    assert plan([writable(A), settled(B, 7), waiting(C)]) == Renew((A,), (settled(B, 7),))


def test_a_block_finalized_everywhere_is_completed_without_a_new_stamp() -> None:
    assert plan([settled(A, 7), settled(B, 7), settled(C, 7)]) == CompleteAsIs((A, B, C), 7)
    assert plan([settled(A, 7), unreachable(B), waiting(C)]) == CompleteAsIs((A,), 7)


def test_finalized_replicas_get_no_new_stamp_by_themselves() -> None:
    # Somebody may be completing the file under the stamp that they have.
    assert isinstance(plan([settled(A, 7), settled(B, 7, is_bumped=True)]), RecoverLease)
    assert isinstance(plan([settled(A, 7), settled(B, 9)]), RecoverLease)


def test_a_block_that_most_nodes_never_saw_is_set_up_empty() -> None:
    assert plan([absent(A), absent(B), absent(C)]) == SetUpEmpty((A, B, C))
    assert plan([absent(A), absent(B), unreachable(C)]) == SetUpEmpty((A, B))
    assert plan([absent(A), absent(B), waiting(C)]) == SetUpEmpty((A, B))


def test_one_node_without_a_replica_is_no_proof_that_nothing_was_written() -> None:
    # It may have lost its disk, and the acknowledged bytes lie on the two that do not answer: HDFS would delete the block.
    assert plan([absent(A), unreachable(B), unreachable(C)]) == WaitForNodes()
    assert plan([absent(A), unreachable(B)]) == WaitForNodes()
    assert isinstance(plan([absent(A), waiting(B), unreachable(C)]), RecoverLease)


def test_nobody_decides_without_an_answer() -> None:
    assert plan([unreachable(A), unreachable(B)]) == WaitForNodes()
    assert isinstance(plan([waiting(A), unreachable(B)]), RecoverLease)
    assert isinstance(plan([]), RecoverLease)


def test_what_was_acknowledged_is_never_cut_off() -> None:
    assert plan([writable(A), settled(B, 4)], least_bytes=9) == Renew((A,))
    assert plan([settled(A, 4), settled(B, 9)], least_bytes=9) == CompleteAsIs((B,), 9)
    # Another node may hold the rest, and come back.
    assert plan([settled(A, 4), unreachable(B)], least_bytes=9) == WaitForNodes()
    assert plan([settled(A, 4), settled(B, 4), waiting(C)], least_bytes=9) == WaitForNodes()
    # After a power loss those that wait may have less than was acknowledged.
    assert plan([waiting(A), waiting(B), unreachable(C)], least_bytes=9) == WaitForNodes()
    assert plan([absent(A), absent(B), unreachable(C)], least_bytes=9) == WaitForNodes()
    assert plan([settled(A, 4), settled(B, 5), absent(C)], least_bytes=9) == BytesGone(5)
    assert plan([absent(A), absent(B), absent(C)], least_bytes=1) == BytesGone(0)


def test_a_node_that_is_no_longer_listed_joins_but_never_decides() -> None:
    others = writable(B, is_listed=False)
    assert plan([writable(A), others]) == Renew((A, B))
    assert plan([unreachable(A), others]) == WaitForNodes()
    assert plan([settled(A, 7), others]) == CompleteAsIs((A,), 7)


replica_lists = st.lists(
    st.builds(
        Replica,
        st.sampled_from([A, B, C, D]),
        st.sampled_from(list(ReplicaState)),
        st.integers(0, 3),
        st.booleans(),
        st.booleans(),
    ),
    max_size=4,
    unique_by=lambda replica: replica.node,
)


@given(replica_lists, st.integers(1, 4))
def test_no_plan_closes_below_what_was_acknowledged(replicas: list[Replica], least_bytes: int) -> None:
    """Lease recovery closes at what it finds, so it is left to replicas of which nobody knows that they are too short."""
    listed = [replica for replica in replicas if replica.is_listed]
    has_short = any(
        r.state is ReplicaState.ABSENT or (r.state is ReplicaState.SETTLED and r.length_bytes < least_bytes)
        for r in listed
    )
    match plan(replicas, least_bytes=least_bytes):
        case Renew(_, kept):
            assert all(replica.length_bytes >= least_bytes for replica in kept)
        case CompleteAsIs(_, length_bytes):
            assert length_bytes >= least_bytes
        case RecoverLease():
            usable = {
                r.length_bytes for r in listed if r.state is ReplicaState.SETTLED and r.length_bytes >= least_bytes
            }
            assert usable or not (has_short or any(r.state is ReplicaState.UNREACHABLE for r in listed))
        case WaitForNodes():
            assert any(r.state in (ReplicaState.UNREACHABLE, ReplicaState.WAITING) for r in listed)
        case BytesGone(length_bytes):
            assert length_bytes < least_bytes
            assert all(r.state in (ReplicaState.SETTLED, ReplicaState.ABSENT) for r in listed)
        case SetUpEmpty():
            raise AssertionError("something was acknowledged")


@given(replica_lists)
def test_a_plan_uses_only_nodes_that_can_do_it_and_relies_on_a_listed_one(replicas: list[Replica]) -> None:
    by_node = {replica.node: replica for replica in replicas}
    match plan(replicas):
        case Renew(nodes, kept):
            assert all(by_node[node].state is ReplicaState.WRITABLE for node in nodes)
            assert all(r.state is ReplicaState.SETTLED and r.is_listed for r in kept)
            assert any(by_node[node].is_listed for node in nodes)
        case CompleteAsIs(nodes, length_bytes):
            listed = [r for r in replicas if r.is_listed]
            assert all(r.state is not ReplicaState.WRITABLE for r in listed)
            assert {(r.node, r.length_bytes) for r in listed if r.state is ReplicaState.SETTLED} == {
                (node, length_bytes) for node in nodes
            }
        case SetUpEmpty(nodes):
            listed = [r for r in replicas if r.is_listed]
            assert all(by_node[node].state is ReplicaState.ABSENT for node in nodes)
            assert 2 * len(nodes) > len(listed)
            assert not any(r.state in (ReplicaState.WRITABLE, ReplicaState.SETTLED) for r in listed)
        case WaitForNodes():
            states = {r.state for r in replicas if r.is_listed}
            assert ReplicaState.UNREACHABLE in states <= {ReplicaState.UNREACHABLE, ReplicaState.ABSENT}
        case RecoverLease(reason):
            assert reason
        case BytesGone():
            raise AssertionError("nothing was acknowledged")


@given(
    st.lists(st.integers(0, 10 * CHUNK), min_size=1, max_size=3),
    st.lists(st.integers(0, 10 * CHUNK), max_size=2),
    st.integers(1, 4 * CHUNK),
)
def test_all_replicas_become_equal_to_the_longest(lengths: list[int], kept: list[int], piece_bytes_max: int) -> None:
    """Method: the replicas are played, as prefixes of one stream; what is resent is written as a DataNode would."""
    writing = dict(zip((A, B, C), lengths, strict=False))
    finalized = [settled(DataNode(f"f{at}", A.transfer, A.ipc), size) for at, size in enumerate(kept)]
    agreement = agree(writing, finalized, chunk_bytes=CHUNK)
    longest = max((*lengths, *kept))
    assert agreement.length_bytes == longest
    assert {**writing, **{r.node: r.length_bytes for r in finalized}}[agreement.source] == longest
    assert set(agreement.settled) == {r.node for r in finalized if r.length_bytes == longest}
    after = dict(writing)
    if agreement.resend_from is not None:
        for position, length_bytes in pieces(
            agreement.resend_from, longest, piece_bytes_max=piece_bytes_max, chunk_bytes=CHUNK
        ):
            assert position % CHUNK == 0
            assert 0 < length_bytes <= max(CHUNK, piece_bytes_max)
            for node, size in after.items():
                assert position <= size, "a gap: the DataNode would close the connection"
                after[node] = max(size, position + length_bytes)
    assert set(after.values()) == {longest}


def test_equal_replicas_need_no_data() -> None:
    assert agree({A: 100, B: 100}, [], chunk_bytes=CHUNK).resend_from is None


def test_a_shorter_finalized_replica_is_left_out() -> None:
    agreement = agree({A: 2}, [settled(B, 5), settled(C, 8)], chunk_bytes=CHUNK)
    assert (agreement.length_bytes, agreement.resend_from, agreement.settled) == (8, 0, (C,))


def test_dead_nodes_are_skipped_and_suspected_ones_while_two_others_are_left() -> None:
    assert candidates([A, B, C], [], dead=[], suspected=[C]) == ((A, True), (B, True))
    assert candidates([A, B, C], [], dead=[], suspected=[B, C]) == ((A, True), (B, True), (C, True))
    assert candidates([A, B, C], [], dead=[B], suspected=[C]) == ((A, True), (C, True))
    assert candidates([A, B, C], [], dead=[B], suspected=[A, C]) == ((A, True), (C, True))
    assert candidates([A, B], [], dead=[], suspected=[B]) == ((A, True), (B, True))
    assert candidates([A], [], dead=[], suspected=[]) == ((A, True),)
    assert candidates([A, B], [], dead=[A, B], suspected=[]) == ()


def test_nodes_listed_earlier_are_tried_too() -> None:
    assert candidates([A], [A, B, C], dead=[], suspected=[C]) == ((A, True), (B, False))


def test_nodes_are_paired_by_uuid_alone() -> None:
    moved = replace(A, transfer=Address("elsewhere", 1), storage_id="DS-2")
    assert candidates([moved], [A], dead=[], suspected=[]) == ((moved, True),)
    assert candidates([A, B], [], dead=[moved], suspected=[]) == ((B, True),)
