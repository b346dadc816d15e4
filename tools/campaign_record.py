"""What the last run of each part of the campaign came to: tests/campaign.json, and which parts are due."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

RECORD: Final = "tests/campaign.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PartRecord:
    """`revision`: a commit, with `+` behind it when files differed from it. `day`: UTC. `loop_s`: seconds the machine needs for
    five million additions in Python. `load`: at the beginning. `closing`: the last line of each of its stages.
    """

    revision: str = ""
    seed: int = 0
    day: str = ""
    processors: int = 0
    loop_s: float = 0.0
    load: float = 0.0
    seconds: int = 0
    outcome: str = "never run"
    closing: tuple[str, ...] = ()

    def has_passed_at(self, revision: str) -> bool:
        return self.outcome == "passed" and self.revision == revision and not revision.endswith("+")


def read_record(path: Path) -> dict[str, PartRecord]:
    """By part; empty when nothing was run yet. Raises ValueError for a file that is no record."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())["parts"]
        return {name: PartRecord(**{**part, "closing": tuple(part["closing"])}) for name, part in found.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no record of a campaign: {error!r}") from error


def write_record(path: Path, record: Mapping[str, PartRecord]) -> None:
    parts = {name: dataclasses.asdict(part) for name, part in sorted(record.items())}
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps({"parts": parts}, indent=1) + "\n")
    whole.replace(path)


def due_parts(
    record: Mapping[str, PartRecord], last_changes: Mapping[str, str], is_within: Callable[[str, str], bool]
) -> dict[str, str]:
    """The parts that are to run before a change is done, with the reason.

    `last_changes`: by part, the last commit it depends on. `is_within(commit, revision)`: whether that revision has it.
    """
    due = {}
    for name, commit in last_changes.items():
        part = record.get(name)
        if part is None:
            due[name] = "was never run"
        elif part.outcome != "passed":
            due[name] = f"{part.outcome} at {part.revision} with seed {part.seed}"
        elif part.revision.endswith("+") or not is_within(commit, part.revision):
            due[name] = f"ran at {part.revision}; what it depends on changed in {commit[:12]}"
    return due


def described_record(record: Mapping[str, PartRecord]) -> list[str]:
    """A line each: `soak           passed at 1a2b3c (2026-01-31, seed 5, 412 s, load 0.4)`."""
    return [
        f"{name:14} {part.outcome} at {part.revision} ({part.day}, seed {part.seed}, {part.seconds} s, load {part.load})"
        for name, part in sorted(record.items())
    ]
