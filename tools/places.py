"""Where each test runs -> tests/places.md.

    python -m tools.places [--before REVISION]

With --before the names of all tests are compared with those of that revision: what it had and this one has not, also not under
the name that tests/moved_tests.toml gives, is listed, and makes the exit code 1. Tests are found by pytest, in both, with parameters.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from testing.revisions import checked_out
from tests.support.places import NoPlace, place_of

REPOSITORY: Final = Path(__file__).resolve().parents[1]
DOCUMENT: Final = REPOSITORY / "tests" / "places.md"
MOVED: Final = REPOSITORY / "tests" / "moved_tests.toml"
COLLECT: Final = ("--collect-only", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
NOT_INSTALLED: Final = re.compile(r"No module named '([\w.]+)'")
SHOWN_MAX: Final = 50


class Places:
    """A plugin of pytest that keeps the place of each test."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        # One without a place ends the collection by itself, with its name.
        with contextlib.suppress(NoPlace):
            self.found[item.nodeid] = place_of(item.iter_markers())


def places_here() -> dict[str, str]:
    """By name of the test. Raises SystemExit when they cannot be collected."""
    places, said = Places(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main([*COLLECT, "tests"], plugins=[places])
    if code:
        sys.exit(f"pytest cannot collect the tests: {said.getvalue()[-2_000:]}")
    return places.found


def names_at(revision: str) -> set[str]:
    """The names of a revision's tests. Raises SystemExit when they cannot be collected."""
    with checked_out(revision) as tree:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *COLLECT, "tests"],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        if missing := missing_packages(done.stdout):
            needs = " ".join(missing)
            sys.exit(f"the tests of {revision} need what is not installed: {sys.executable} -m pip install {needs}")
        sys.exit(f"pytest cannot collect the tests of {revision}: {done.stdout[-2_000:]}")
    return {line for line in done.stdout.splitlines() if "::" in line}


def missing_packages(said: str) -> list[str]:
    """What pytest, which said this, could not import."""
    return sorted({name.partition(".")[0] for name in NOT_INSTALLED.findall(said)})


@dataclass(frozen=True, slots=True)
class Moved:
    """Tests that have another name now, by their old one; see tests/moved_tests.toml."""

    files: Mapping[str, str] = field(default_factory=dict)
    tests: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)

    def lost(self, before: Collection[str], here: Collection[str]) -> list[str]:
        """The names, sorted, that are not `here`, neither as they were nor under another name, and not gone for a reason."""
        known = set(here) | {name.partition("[")[0] for name in here}
        return sorted(name for name in before if name not in known and not self._is_accounted_for(name, known))

    def _is_accounted_for(self, name: str, known: Collection[str]) -> bool:
        plain = name.partition("[")[0]
        file, _, rest = name.partition("::")
        successors = (
            self.tests.get(name),
            self.tests.get(plain),
            f"{self.files[file]}::{rest}" if file in self.files else None,
        )
        return any(one in known for one in successors) or file in self.gone or plain in self.gone


def moved_tests() -> Moved:
    return Moved(**tomllib.loads(MOVED.read_text()))


def group_of(name: str) -> str:
    """What stands in a line of the document: a file, or a folder of unit tests."""
    file = name.partition("::")[0]
    return str(Path(file).parent) + "/" if file.startswith("tests/unit/") else file


def counted(names: Iterable[str]) -> collections.Counter[str]:
    return collections.Counter(group_of(name) for name in names)


def document(
    places: Mapping[str, str], before: Collection[str] = (), revision: str = "", moved: Moved | None = None
) -> str:
    """`before`: the names that `revision` had; none: no comparison. `moved`: where some of them went. Pure."""
    totals = collections.Counter(places.values())
    gone = set(before) - places.keys()
    lost = (moved or Moved()).lost(gone, places.keys())
    lines = [
        "# Where each test runs",
        "Made by `make places`. Stages are those of `make test`, parts those of `make campaign`.",
        "",
        "| place | tests |",
        "|---|---|",
        *(f"| {place} | {count} |" for place, count in sorted(totals.items())),
        f"| all | {len(places)} |",
        "",
    ]
    if before:
        lines += [
            f"Revision {revision} had {len(set(before))} tests; {len(lost)} of them are lost, {len(gone) - len(lost)} have another "
            f"name or went with what they tested (moved_tests.toml), {len(places.keys() - set(before))} names are new.",
            *(f"- lost: `{name}`" for name in lost[:SHOWN_MAX]),
            "",
        ]
    here, then = counted(places), counted(before)
    by_group: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name, place in places.items():
        by_group[group_of(name)][place] += 1
    lines += [f"| tests of | {'before | ' if before else ''}now | where |", f"|---|---|---|{'---|' if before else ''}"]
    for group in sorted(here.keys() | then.keys()):
        where = ", ".join(f"{place} {count}" for place, count in sorted(by_group[group].items()))
        lines.append(f"| {group} | {f'{then[group]} | ' if before else ''}{here[group]} | {where} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--before", metavar="REVISION")
    given = options.parse_args()
    before = names_at(given.before) if given.before else set()
    places = places_here()
    moved = moved_tests()
    DOCUMENT.write_text(document(places, before, given.before or "", moved))
    lost = moved.lost(before, places.keys())
    for name in lost:
        print(f"lost: {name}")
    print(f"{len(places)} tests" + (f", {len(lost)} of {len(before)} lost" if before else ""))
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
