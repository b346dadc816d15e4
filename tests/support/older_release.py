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

from testing.cluster import ENVIRONMENT, ClusterNode
from testing.processes import REPOSITORY

# The older release refuses settings that it does not know.
_LATER_SETTINGS: Final = ("BMQ_CLUSTER__NODE_SESSION_TIMEOUT_MS",)
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


def choose_release(node: ClusterNode, release: Path) -> None:
    """The next start of the node runs this release: REPOSITORY, or where `unpack_older_release` put the older one."""
    settings = ENVIRONMENT if release == REPOSITORY else {}
    for name in _LATER_SETTINGS:
        node.process.environment.pop(name, None)
    node.process.environment |= {name: settings[name] for name in _LATER_SETTINGS if name in settings}
    node.process.environment["PYTHONPATH"] = str(release)
    assert package_of(node.process.environment) == release / "bmq"


def change_release(node: ClusterNode, release: Path) -> None:
    """SIGTERM, and a start with this release."""
    if node.is_running:
        node.stop()
    choose_release(node, release)
    node.start()
