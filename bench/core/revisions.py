"""One core of a bmq node beside the same of an earlier revision: `python -m bench.core.revisions OLD [--pairs N]`.

OLD: any name that git knows. The other side is the tree as it stands here. Both are put under the loads of `bench.core` in
alternation; prints a table of ratios, new to old. Writes nothing but its servers' data, which it removes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.core.contenders import ServerOfTree, compare
from bench.core.plan import PARTS, plan_of
from bench.criteria import BMQ
from bench.runner import SMOKE
from tests.support.processes import REPOSITORY

_GENERATED: Final = "bmq/hdfs/proto"  # made by the Makefile, not in git
# As the tree's own setup.py makes the kernel in C; a revision without one has no such function.
_BUILD_KERNEL: Final = """
import setuptools
setuptools.setup = lambda **_: None
import setup
if hasattr(setup, "build_kernel") and not setup.build_kernel():
    raise SystemExit("the kernel was not built")
"""


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The tree of a revision with what is made when it is installed, for as long as it is needed.

    Raises CalledProcessError: git does not know it, or its kernel cannot be compiled.
    """
    git = ["git", "-C", str(REPOSITORY)]
    with TemporaryDirectory(prefix="bmq-revision-") as directory:
        tree = Path(directory) / "tree"
        subprocess.run(
            [*git, "worktree", "add", "--detach", "--force", str(tree), revision], check=True, stdout=sys.stderr
        )
        try:
            shutil.copytree(REPOSITORY / _GENERATED, tree / _GENERATED, dirs_exist_ok=True)
            subprocess.run([sys.executable, "-c", _BUILD_KERNEL], cwd=tree, check=True, stdout=sys.stderr)
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


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
