"""One core of a bmq node under two interpreters: `python -m bench.core.interpreters OLD NEW [--pairs N]`.

OLD, NEW: Python programs whose environments have bmq's dependencies (`pip install .`), for example of the same version built
with and without `--disable-gil`; the source is this tree's. Both are put under the loads of `bench.core` in alternation;
prints a table of ratios, new to old. `--free-threaded`: NEW runs without its lock, whatever its modules ask for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.core.contenders import ServerOfTree, compare
from bench.core.plan import PARTS, plan_of
from bench.criteria import BMQ
from bench.runner import SMOKE

_NO_LOCK: Final = {"PYTHON_GIL": "0"}


def under(interpreter: Path, environment: dict[str, str]) -> Callable[[Path], ServerOfTree]:
    return partial(ServerOfTree, interpreter=interpreter, environment=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", type=Path)
    parser.add_argument("new", metavar="NEW", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--free-threaded", action="store_true", help="NEW is built with --disable-gil")
    parser.add_argument("--smoke", action="store_true", help="as short as it goes: only that it works")
    given = parser.parse_args()
    plan = replace(plan_of(PARTS, (BMQ,), SMOKE if given.smoke else ""), pairs=given.pairs)
    new = under(given.new, _NO_LOCK if given.free_threaded else {})
    compare(("old", under(given.old, {})), ("new", new), plan)


if __name__ == "__main__":
    main()
