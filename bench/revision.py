"""Which revision of the repository is measured, and whether the tree holds anything else."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What a run, and the command that makes the tables, write themselves: no figure depends on it.
MADE_BY_BENCHMARKS: Final = ("bench/results/", "docs/benchmarks/", "README.md")
DIRTY_SUFFIX: Final = "-dirty"
CHANGES_NAMED_MAX: Final = 5


class NotOneRevision(Exception):
    """The results could not be traced to one revision; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Revision:
    """`commit`: short hash. `changes`: paths that differ from it, or that it does not know."""

    commit: str
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.commit}{DIRTY_SUFFIX}" if self.changes else self.commit

    def check_clean(self) -> None:
        """Raises NotOneRevision."""
        if self.changes:
            named = ", ".join(self.changes[:CHANGES_NAMED_MAX])
            more = len(self.changes) - CHANGES_NAMED_MAX
            raise NotOneRevision(
                f"the tree differs from revision {self.commit} in {named}{f' and {more} more' if more > 0 else ''}: "
                "commit or remove the changes, or name a file of your own with --results"
            )

    def check_same(self, later: Revision) -> None:
        """Raises NotOneRevision when the tree was changed while it was measured."""
        if later != self:
            raise NotOneRevision(f"the tree was {self} when the run began and {later} when it ended")


UNKNOWN: Final = Revision("unknown", ("whatever is there",))
"""Of a tree that is no checkout."""


def changed_paths(porcelain: str) -> tuple[str, ...]:
    """Paths of `git status --porcelain=v1 -z` that count as changes of what is measured. Pure.

    A renamed file's former name follows as an entry of its own; it changed as well.
    """
    found = []
    entries = iter(porcelain.split("\0"))
    for entry in entries:
        if not entry:
            continue
        status, path = entry[:2], entry[3:]
        paths = [path, next(entries, "")] if status[0] in "RC" else [path]
        found += [one for one in paths if one and not one.startswith(MADE_BY_BENCHMARKS)]
    return tuple(found)


def read_revision(repository: Path) -> Revision:
    """Raises NotOneRevision when this is no checkout of a git repository, or there is no git."""

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=repository)
        except FileNotFoundError:
            raise NotOneRevision("the revision cannot be read: there is no git") from None
        if done.returncode != 0:
            raise NotOneRevision(f"the revision cannot be read: git {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    commit = git("rev-parse", "--short=12", "HEAD").strip()
    return Revision(commit, changed_paths(git("status", "--porcelain=v1", "-z", "--untracked-files=all")))
