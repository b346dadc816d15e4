"""Parts of the campaign, what is written of them, and which are due."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testing.processes import REPOSITORY
from tests.support import places
from tools.campaign import PARTS, SEED_MAX, drawn_seed, outcome_word
from tools.campaign_record import PartRecord, described_record, due_parts, read_record, write_record
from tools.stages import Outcome, Stage

pytestmark = pytest.mark.unit

SOAK = PartRecord("1a2b3c", 5, "2026-01-31", 2, 0.5, 0.4, 412, "passed", ("6 passed",))


def test_each_part_that_a_test_can_name_is_run() -> None:
    assert {part.name for part in PARTS if part.tests} == set(places.PARTS)
    missing = [path for part in PARTS for path in part.depends if not (REPOSITORY / path).exists()]
    assert missing == []


def test_a_seed_decides_the_order_and_is_handed_to_what_draws() -> None:
    commands = {stage.name: [*stage.command] for part in PARTS for stage in part.stages(seed=77)}
    assert "--randomly-seed=77" in commands["soak"] and "campaign:soak" in commands["soak"]
    assert commands["tools.fresh --seeds"][-2:] == ["--first", "77"]
    assert {stage.dice for part in PARTS if part.tests for stage in part.stages(77)[:1]} == {77}


def test_a_seed_is_drawn_from_the_day_and_the_revision() -> None:
    drawn = drawn_seed("2026-01-31", "1a2b3c")
    assert drawn == drawn_seed("2026-01-31", "1a2b3c")
    assert drawn not in {drawn_seed("2026-02-01", "1a2b3c"), drawn_seed("2026-01-31", "1a2b3d")}
    assert 0 <= drawn < SEED_MAX


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "campaign.json"
    assert read_record(path) == {}
    record = {"soak": SOAK, "kafka": replace(SOAK, outcome="failed")}
    write_record(path, record)
    assert read_record(path) == record
    assert [file.name for file in tmp_path.iterdir()] == ["campaign.json"]


@pytest.mark.parametrize("text", ['{"parts": {"soak": 5}}', "[]", '{"parts": {"soak": {"pace": 3}}}', "no JSON"])
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "campaign.json").write_text(text)
    with pytest.raises(ValueError):
        read_record(tmp_path / "campaign.json")


def test_a_part_is_due_until_it_passed_with_the_last_change_it_depends_on() -> None:
    history = ["first", "1a2b3c", "later"]

    def is_within(commit: str, at: str) -> bool:
        return commit in history and at in history and history.index(commit) <= history.index(at)

    record = {
        "soak": SOAK,
        "hurt": replace(SOAK, outcome="failed"),
        "changed": replace(SOAK, revision="1a2b3c+"),
        "old": SOAK,
        "foreign": replace(SOAK, revision="elsewhere"),
    }
    changes = {"soak": "first", "hurt": "first", "changed": "first", "old": "later", "foreign": "first", "new": "first"}
    assert due_parts(record, changes, is_within) == {
        "hurt": "failed at 1a2b3c with seed 5",
        "changed": "ran at 1a2b3c+; what it depends on changed in first",
        "old": "ran at 1a2b3c; what it depends on changed in later",
        "foreign": "ran at elsewhere; what it depends on changed in first",
        "new": "was never run",
    }


def test_only_a_pass_without_other_changes_is_left_out_of_the_next_run() -> None:
    assert SOAK.has_passed_at("1a2b3c")
    assert not replace(SOAK, outcome="failed").has_passed_at("1a2b3c")
    assert not SOAK.has_passed_at("1a2b3d")
    assert not replace(SOAK, revision="1a2b3c+").has_passed_at("1a2b3c+")


def test_a_record_is_a_line_for_each_part() -> None:
    assert described_record({"soak": SOAK}) == ["soak           passed at 1a2b3c (2026-01-31, seed 5, 412 s, load 0.4)"]


def test_a_part_in_which_the_machine_stood_still_is_neither_passed_nor_failed() -> None:
    stage = Stage("soak", (), 60)
    passed, failed = Outcome(stage, True, 1.0, ""), Outcome(stage, False, 1.0, "", 1)
    invalid = replace(failed, is_invalid=True)
    assert [outcome_word(each) for each in ([passed], [passed, invalid], [invalid, failed])] == [
        "passed",
        "invalid",
        "failed",
    ]
    assert not replace(SOAK, outcome="invalid").has_passed_at("1a2b3c")
