"""A job's journal in a directory that outlives it: its plan, and the result of each finished step.

    plan.json           the request, and the plan made from it the first time
    step-000003.json    the result of step 3

A file is written under another name, synced and then renamed, so after kill -9 it is complete or missing. A resumed job uses
the stored plan. So it ends where it would have ended without the interruption, also if the topics have grown since.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bmq.spark.jobs.outcome import JobFailed

_PLAN: Final = "plan.json"


class Journal:
    """The journal of one job. `directory` None: nothing is stored, and the job starts anew the next time."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._results: dict[int, Any] = {}
        self._plan_id: str | None = None

    def begin(self, asked: Mapping[str, Any], make_plan: Callable[[], Any]) -> Any:
        """The stored plan, or a new one. Raises JobFailed when the directory belongs to another job, or is damaged."""
        if self._directory is None:
            return make_plan()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobFailed(f"--state {self._directory} cannot be used: {error.strerror}") from error
        wanted = json.loads(json.dumps(asked))
        if (kept := self._read(_PLAN)) is not None:
            if not isinstance(kept, dict) or not isinstance(kept.get("asked"), dict) or "plan" not in kept:
                raise JobFailed(f"{self._directory / _PLAN} is no plan of a job; name another directory")
            if kept["asked"] != wanted:
                differing = sorted(
                    name for name in {*kept["asked"], *wanted} if kept["asked"].get(name) != wanted.get(name)
                )
                raise JobFailed(
                    f"--state {self._directory} belongs to a job with another {', '.join(differing)}; "
                    "name another directory, or remove this one"
                )
            self._plan_id = kept.get("id")
            return kept["plan"]
        plan = json.loads(json.dumps(make_plan()))
        # Results name their plan: a step of the same number in an earlier plan had another range.
        self._plan_id = uuid.uuid4().hex
        self._write(_PLAN, {"asked": wanted, "plan": plan, "id": self._plan_id})
        return plan

    def result(self, step: int) -> Any:
        """The step's recorded result; None: it has not finished."""
        if step not in self._results and self._directory is not None:
            kept = self._read(_step_name(step))
            if kept is not None:
                if not isinstance(kept, dict) or "result" not in kept:
                    raise JobFailed(f"{self._directory / _step_name(step)} is no result of a step; remove it")
                if kept.get("plan_id") == self._plan_id:
                    self._results[step] = kept["result"]
        return self._results.get(step)

    def record(self, step: int, result: Any) -> None:
        """Store the result of a finished step. `result` must be JSON-serializable."""
        self._results[step] = result
        if self._directory is not None:
            self._write(_step_name(step), {"result": result, "plan_id": self._plan_id})

    def _read(self, name: str) -> Any:
        assert self._directory is not None
        path = self._directory / name
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise JobFailed(f"{path} cannot be read ({error}); remove it, and what it says is done again") from error

    def _write(self, name: str, document: Any) -> None:
        assert self._directory is not None
        draft = self._directory / f"{name}.draft"
        try:
            with draft.open("w") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._directory / name)
            directory = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise JobFailed(f"{self._directory / name} cannot be written: {error.strerror}") from error


def _step_name(step: int) -> str:
    return f"step-{step:06d}.json"
