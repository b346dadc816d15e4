"""Trees of earlier revisions of this repository, as installed: their tests, or their server, run beside those of now."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from testing.processes import REPOSITORY

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
            for generated in (REPOSITORY / _GENERATED).glob("*_pb2.py*"):
                shutil.copy(generated, tree / _GENERATED)
            subprocess.run([sys.executable, "-c", _BUILD_KERNEL], cwd=tree, check=True, stdout=sys.stderr)
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
