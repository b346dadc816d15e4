"""One core of a bmq node beside the same of an earlier revision: `python -m bench.core.revisions OLD [--pairs N]`.

OLD: any name that git knows. The other side is the tree as it stands here. Both are put under the loads of `bench.core` in
alternation; prints a table of ratios, new to old. Writes nothing but its servers' data, which it removes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.core.__main__ import DATA, cores, put_under_load
from bench.core.client import Client
from bench.core.criteria import RATIOS
from bench.core.plan import PARTS, Plan, plan_of
from bench.criteria import BMQ
from bench.findings import say
from bench.runner import SMOKE
from tests.support.processes import REPOSITORY, kill_everything
from tests.support.servers import BmqServer, standalone_arguments

OLD: Final = "old"
NEW: Final = "new"
_GENERATED: Final = "bmq/hdfs/proto"  # made by the Makefile, not in git
_START: Final = "import sys; from bmq.cli.main import main; sys.argv[0] = 'bmq'; main()"


class ServerOfTree(BmqServer):
    """The server as the source in `tree` has it."""

    def __init__(self, directory: Path, tree: Path) -> None:
        super().__init__(directory, {"PYTHONPATH": str(tree)})

    def _arguments(self) -> list[str]:
        return [sys.executable, "-c", _START, *standalone_arguments(self.directory, f"127.0.0.1:{self.port}")]


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The tree of a revision, for as long as it is needed."""
    tree = DATA / "tree"
    git = ["git", "-C", str(REPOSITORY)]
    subprocess.run([*git, "worktree", "add", "--detach", "--force", str(tree), revision], check=True, stdout=sys.stderr)
    try:
        shutil.copytree(REPOSITORY / _GENERATED, tree / _GENERATED, dirs_exist_ok=True)
        yield tree
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def samples(trees: dict[str, Path], plan: Plan) -> list[dict[str, Any]]:
    """By side, what each pair found."""
    server_core, client_core = cores()
    client = Client(DATA / "client", client_core)
    found: list[dict[str, Any]] = []
    for number in range(plan.pairs):
        pair: dict[str, Any] = {}
        for name in (OLD, NEW)[:: 1 if number % 2 == 0 else -1]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            server = ServerOfTree(DATA / name, trees[name])
            put_under_load(server, server_core, client, plan, pair.setdefault(name, {}))
        found.append(pair)
    return found


def table_of(found: Sequence[dict[str, Any]]) -> Table:
    table = Table("figure", "unit", OLD, NEW, "ratio min", "median", "max", box=None, pad_edge=False)
    for ratio in RATIOS:
        values = {name: [ratio.of(pair[name]) for pair in found] for name in (OLD, NEW)}
        ratios = sorted(new / old for old, new in zip(values[OLD], values[NEW], strict=True))
        figures = (median(values[OLD]), median(values[NEW]), ratios[0], median(ratios), ratios[-1])
        table.add_row(ratio.what, ratio.unit, *(f"{figure:.4g}" for figure in figures))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", metavar="OLD")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="as short as it goes: only that it works")
    given = parser.parse_args()
    plan = replace(plan_of(PARTS, (BMQ,), SMOKE if given.smoke else ""), pairs=given.pairs)
    DATA.mkdir(parents=True, exist_ok=True)
    try:
        with checked_out(given.revision) as tree:
            found = samples({OLD: tree, NEW: REPOSITORY}, plan)
        Console(soft_wrap=True).print(table_of(found))
    finally:
        kill_everything()
        shutil.rmtree(DATA, ignore_errors=True)


if __name__ == "__main__":
    main()
