"""States of tables that are told, against the processes of their jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kept_tables import TOLD_LATE_S_MAX, TellTale

pytestmark = pytest.mark.unit


def status(state: str) -> dict[str, dict[str, Any]]:
    return {"t": {"state": state, "error": None}}


def test_a_kill_is_told_and_the_next_job_is() -> None:
    tale = TellTale()
    tale.look(0, {"t": 7}, status("running"))
    tale.killed(1, "t", 7)
    tale.look(2, {}, status("running"))
    tale.look(3, {}, status("failed"))
    tale.look(4, {"t": 8}, status("starting"))
    tale.look(5, {"t": 8}, status("running"))
    assert (tale.wrong, tale.restarts, tale.looks) == ([], 1, 5)


def test_a_table_that_runs_must_be_told_as_running() -> None:
    tale = TellTale()
    tale.look(0, {"t": 7}, status("silent"))
    assert tale.wrong == ["t is told as silent (None) and was not killed"]


@pytest.mark.parametrize("jobs", [{}, {"t": 7}, {"t": 8}])
def test_a_kill_that_is_not_told_is_wrong(jobs: dict[str, int]) -> None:
    tale = TellTale()
    tale.killed(1, "t", 7)
    tale.look(1 + TOLD_LATE_S_MAX, jobs, status("running"))
    assert tale.wrong == []
    tale.look(2 + TOLD_LATE_S_MAX, jobs, status("running"))
    assert len(tale.wrong) == 1 and tale.restarts == 0
