"""Why a server is not ready or not well: each fault has its reason, and a server without faults has none."""

from __future__ import annotations

import pytest

from bmq.admin.health import HealthFacts, LoggedEvent, Severity, Stage, UnstartedPartition, reasons

pytestmark = pytest.mark.unit


def codes(
    facts: HealthFacts | None = None,
    *,
    is_ready: bool = True,
    states: dict[str, int] | None = None,
    problems: tuple[str, ...] = (),
) -> list[str]:
    return [one.code for one in reasons(facts or HealthFacts(), states or {}, problems, is_ready=is_ready)]


def test_a_server_without_faults_has_no_reasons() -> None:
    assert codes(states={"writing": 3, "unopened": 4}) == []


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        (Stage.STORE, "waits_for_store"),
        (Stage.ELECTION, "waits_for_zookeeper"),
        (Stage.REGISTRATION, "waits_for_controller"),
        (Stage.METADATA, "recovers_metadata"),
        (Stage.STOPPING, "stopping"),
        (Stage.SERVING, "not_ready"),
    ],
)
def test_each_stage_of_a_start_says_what_it_waits_for(stage: Stage, code: str) -> None:
    (found,) = reasons(HealthFacts(stage), {}, (), is_ready=False)
    assert (found.code, found.severity) == (code, Severity.NOT_READY)


def test_a_node_that_is_fenced() -> None:
    assert codes(HealthFacts(is_fenced=True), is_ready=False) == ["fenced"]


def test_a_start_does_not_complain_about_a_controller_that_it_has_not_met() -> None:
    facts = HealthFacts(Stage.REGISTRATION, is_controller_silent=True)
    assert codes(facts, is_ready=False) == ["waits_for_controller"]


def test_the_gravest_reason_comes_first() -> None:
    facts = HealthFacts(
        is_controller_silent=True,
        is_store_away=True,
        unreachable_nodes=(3, 2),
        left_out_datanodes=1,
        stalled_ago_s=5.0,
        errors=(LoggedEvent("partition_offline", "error", 1, 0), LoggedEvent("write_failed", "error", 2, 0)),
        unstarted=[
            UnstartedPartition(f"orders-{number}", 42.0 - number, "NoRoom: the quota is used up.")
            for number in range(5)
        ],
    )
    found = reasons(facts, {"offline": 1, "blocked": 2}, ("no log is compacted: it ended",), is_ready=True)
    assert [(one.code, one.severity) for one in found] == [
        ("partitions_offline", Severity.ERROR),
        ("partitions_blocked", Severity.ERROR),
        ("partitions_not_started", Severity.ERROR),
        ("store_away", Severity.ERROR),
        ("controller_silent", Severity.ERROR),
        ("nodes_unreachable", Severity.WARNING),
        ("datanodes_left_out", Severity.WARNING),
        ("compaction_unavailable", Severity.WARNING),
        ("loop_stalled", Severity.WARNING),
        ("errors_logged", Severity.WARNING),
    ]
    said = {one.code: one.what for one in found}
    assert said["partitions_offline"].startswith("1 partition is ")
    assert said["partitions_blocked"].startswith("2 partitions are ")
    assert said["partitions_not_started"] == (
        "5 partitions are not started: orders-0, orders-1, orders-2 and 2 more, for 42 s. The store: NoRoom: the quota is used up."
    )
    assert said["nodes_unreachable"] == "This node cannot reach the nodes 2, 3."
    assert said["errors_logged"].endswith("partition_offline, and one other kind.")


def test_every_reason_is_a_sentence_and_says_what_to_do() -> None:
    facts = HealthFacts(unreachable_nodes=range(40), left_out_datanodes=2, stalled_ago_s=1.0)
    found = list(reasons(facts, {"offline": 2, "blocked": 1}, (), is_ready=True))
    for stage in Stage:
        found += reasons(HealthFacts(stage), {}, (), is_ready=False)
    for one in found:
        for sentence in (one.what, one.what_to_do):
            assert not sentence[0].islower() and sentence.endswith("."), sentence
    assert "and 30 more" in next(one.what for one in found if one.code == "nodes_unreachable")


def test_a_stall_is_forgotten() -> None:
    assert codes(HealthFacts(stalled_ago_s=601.0)) == []
