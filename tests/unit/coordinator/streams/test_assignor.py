"""The sticky assignor: every task once, evenly, where it was, and copies elsewhere."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.streams.assignor import AssignedMember, SubtopologySize, assign
from bmq.coordinator.streams.tasks import NO_TASKS, TaskId, Tasks
from tests.unit.coordinator.streams.bench import ids

pytestmark = pytest.mark.unit

SIZES = st.dictionaries(
    st.sampled_from("012"), st.builds(SubtopologySize, st.integers(0, 6), st.booleans()), max_size=3
)
PROCESSES = st.lists(st.sampled_from("PQRS"), max_size=6)


def members_of(processes: list[str], previous: dict[str, Tasks] | None = None) -> list[AssignedMember]:
    known = previous or {}
    return [
        AssignedMember(f"m{number}", process, known.get(f"m{number}", NO_TASKS))
        for number, process in enumerate(processes)
    ]


def test_one_member_gets_everything() -> None:
    given_tasks = assign(members_of(["P"]), {"0": SubtopologySize(2, True), "1": SubtopologySize(1, False)}, 1)
    assert given_tasks == {"m0": Tasks(ids(("0", 0), ("0", 1), ("1", 0)))}
    assert assign([], {"0": SubtopologySize(2, True)}, 1) == {}


def test_a_newcomer_gets_its_share_and_the_rest_stays() -> None:
    before = assign(members_of(["P"]), {"0": SubtopologySize(4, True)}, 0)
    after = assign(members_of(["P", "Q"], before), {"0": SubtopologySize(4, True)}, 0)
    assert after["m0"].active == ids(("0", 0), ("0", 1))
    assert after["m1"].active == ids(("0", 2), ("0", 3))


def test_a_task_goes_where_its_state_is_followed() -> None:
    before = {"m1": Tasks(standby=ids(("0", 0))), "m2": NO_TASKS}
    after = assign(members_of(["P", "Q", "R"], before)[1:], {"0": SubtopologySize(1, True)}, 1)
    assert after == {"m1": Tasks(ids(("0", 0))), "m2": Tasks(standby=ids(("0", 0)))}
    before = {"m1": NO_TASKS, "m2": Tasks(warmup=ids(("0", 0)))}
    after = assign(members_of(["P", "Q", "R"], before)[1:], {"0": SubtopologySize(1, True)}, 0)
    assert after["m2"].active == ids(("0", 0))


def test_what_is_taken_from_a_member_is_followed_there() -> None:
    before = {"m0": Tasks(ids(("0", 0), ("0", 1)))}
    after = assign(members_of(["P", "Q"], before), {"0": SubtopologySize(2, True)}, 1)
    assert after == {
        "m0": Tasks(ids(("0", 0)), ids(("0", 1))),
        "m1": Tasks(ids(("0", 1)), ids(("0", 0))),
    }


def test_copies_need_processes() -> None:
    after = assign(members_of(["P", "P"]), {"0": SubtopologySize(2, True)}, 2)
    assert not any(tasks.standby for tasks in after.values())


def test_either_kind_of_tasks_is_spread_evenly() -> None:
    sizes = {"0": SubtopologySize(4, False), "1": SubtopologySize(2, True)}
    after = assign(members_of(["P", "Q"]), sizes, 0)
    for tasks in after.values():
        assert Counter(task.subtopology for task in tasks.active) == {"0": 2, "1": 1}


def test_larger_processes_get_more() -> None:
    after = assign(members_of(["P", "Q", "Q", "Q"]), {"0": SubtopologySize(8, True)}, 0)
    assert [len(after[f"m{number}"].active) for number in range(4)] == [2, 2, 2, 2]


@given(SIZES, PROCESSES, PROCESSES, st.integers(0, 2), st.integers(0, 2))
def test_any_group(
    sizes: dict[str, SubtopologySize], first: list[str], processes: list[str], copies_before: int, copies: int
) -> None:
    before = assign(members_of(first), sizes, copies_before)
    after = assign(members_of(processes, before), sizes, copies)
    assert set(after) == {f"m{number}" for number in range(len(processes))}
    if not processes:
        return
    process_of = {f"m{number}": process for number, process in enumerate(processes)}
    active = Counter(task for tasks in after.values() for task in tasks.active)
    wanted = {TaskId(name, number) for name, size in sizes.items() for number in range(size.task_count)}
    assert active == Counter(wanted)
    held = Counter((process_of[m], task) for m, tasks in after.items() for task in (*tasks.active, *tasks.standby))
    assert all(count == 1 for count in held.values())
    standby = Counter(task for tasks in after.values() for task in tasks.standby)
    for task in wanted:
        possible = min(copies, len(set(processes)) - 1) if sizes[task.subtopology].is_stateful else 0
        assert standby[task] == possible
    counts = [len(tasks.active) for tasks in after.values()]
    if len(set(processes)) == len(processes):
        assert max(counts) - min(counts) <= 1
    assert assign(members_of(processes, before), sizes, copies) == after


@given(SIZES, PROCESSES)
def test_a_result_gives_itself(sizes: dict[str, SubtopologySize], processes: list[str]) -> None:
    first = assign(members_of(processes), sizes, 0)
    assert assign(members_of(processes, first), sizes, 0) == first
