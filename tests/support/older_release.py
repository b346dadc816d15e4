"""The package as it was at an older commit, for clusters of nodes of two releases.

docs/HACKING.md says how the archive was made; it is in the repository because a clone may have no history.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ARCHIVE: Final = Path(__file__).with_name("releases") / "bmq-4611839.tar.xz"


def unpack_older_release(directory: Path) -> Path:
    """`directory`, with the package in it: the value of PYTHONPATH for a process that is to run it."""
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11 has filters since 3.11.4 only, and Debian 12 has 3.11.2; the archive is our own.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(directory)
    return directory


def package_of(environment: Mapping[str, str]) -> Path:
    """Where a process with this environment finds the package."""
    code = "import bmq.cli, pathlib; print(pathlib.Path(bmq.cli.__file__).parents[1])"
    found = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip())
