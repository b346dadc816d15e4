"""One core of a bmq node beside one of another, under the loads of `bench.core`: what `revisions` and `interpreters` share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.core.__main__ import DATA, cores, put_under_load
from bench.core.client import Client
from bench.core.criteria import PLAIN
from bench.core.plan import Plan
from bench.findings import say
from testing.processes import REPOSITORY, kill_everything
from testing.servers import BmqServer, standalone_arguments

_START: Final = "import sys; from bmq.cli.main import main; sys.argv[0] = 'bmq'; main()"

Contender = Callable[[Path], BmqServer]
"""A server over this directory."""


class ServerOfTree(BmqServer):
    """The server as the source in `tree` has it, under this interpreter."""

    def __init__(
        self,
        directory: Path,
        tree: Path = REPOSITORY,
        *,
        interpreter: Path = Path(sys.executable),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, {"PYTHONPATH": str(tree), **(environment or {})})
        self._interpreter = interpreter

    def _arguments(self) -> list[str]:
        return [
            str(self._interpreter),
            *("-P", "-c"),  # or the working directory would come before the tree
            _START,
            *standalone_arguments(self.directory, f"127.0.0.1:{self.port}"),
        ]


def compare(old: tuple[str, Contender], new: tuple[str, Contender], plan: Plan) -> None:
    """Put both under all loads in alternation and print a table of ratios, new to old. Leaves nothing behind."""
    DATA.mkdir(parents=True, exist_ok=True)
    try:
        found = _samples(dict((old, new)), plan)
        Console(soft_wrap=True).print(_table_of(old[0], new[0], found))
    finally:
        kill_everything()
        shutil.rmtree(DATA, ignore_errors=True)


def _samples(contenders: Mapping[str, Contender], plan: Plan) -> list[dict[str, Any]]:
    """By side, what each pair found."""
    server_core, client_core = cores()
    client = Client(DATA / "client", client_core)
    found: list[dict[str, Any]] = []
    for number in range(plan.pairs):
        pair: dict[str, Any] = {}
        for name in list(contenders)[:: 1 if number % 2 == 0 else -1]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            put_under_load(contenders[name](DATA / "side"), server_core, client, plan, pair.setdefault(name, {}))
        found.append(pair)
    return found


def _table_of(old: str, new: str, found: Sequence[dict[str, Any]]) -> Table:
    table = Table("figure", "unit", old, new, "ratio min", "median", "max", box=None, pad_edge=False)
    for ratio in PLAIN:
        values = {name: [ratio.of(pair[name]) for pair in found] for name in (old, new)}
        ratios = sorted(after / before for before, after in zip(values[old], values[new], strict=True))
        figures = (median(values[old]), median(values[new]), ratios[0], median(ratios), ratios[-1])
        table.add_row(ratio.what, ratio.unit, *(f"{figure:.4g}" for figure in figures))
    return table
