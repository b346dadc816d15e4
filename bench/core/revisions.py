"""One core of a bmq node beside the same of an earlier revision: `python -m bench.core.revisions OLD [--pairs N]`.

OLD: any name that git knows. The other side is the tree as it stands here. Both are put under the loads of `bench.core` in
alternation; prints a table of ratios, new to old. Writes nothing but its servers' data, which it removes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from bench.core.contenders import ServerOfTree, compare
from bench.core.plan import PARTS, plan_of
from bench.criteria import BMQ
from bench.runner import SMOKE
from testing.revisions import checked_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", metavar="OLD")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="as short as it goes: only that it works")
    given = parser.parse_args()
    plan = replace(plan_of(PARTS, (BMQ,), SMOKE if given.smoke else ""), pairs=given.pairs)
    with checked_out(given.revision) as tree:
        compare(("old", lambda directory: ServerOfTree(directory, tree)), ("new", ServerOfTree), plan)


if __name__ == "__main__":
    main()
