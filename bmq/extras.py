"""How to install what an optional part of bmq needs, into the interpreter that runs now. No package index has bmq itself."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from typing import Final

PACKAGE: Final = "bmq"
_OF_EXTRA: Final = re.compile(r"""^(?P<what>[^;]+?)\s*;\s*extra\s*==\s*['"](?P<extra>[^'"]+)['"]\s*$""")
_OWN_EXTRA: Final = re.compile(rf"^{PACKAGE}\[(?P<extra>[^\]]+)\]$")


def install_command(extra: str) -> str:
    """A command for a shell that installs the packages of the extra (pyproject.toml)."""
    try:
        packages = packages_of(extra, requires(PACKAGE) or [])
    except PackageNotFoundError:  # bmq is read from an archive: Spark's --py-files
        packages = []
    what = " ".join(map(shlex.quote, packages)) or f"what the extra {extra!r} of bmq's pyproject.toml names"
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def packages_of(extra: str, requirements: list[str]) -> list[str]:
    """The packages that an extra adds, and those of the extras that it names. `requirements`: of the package's metadata."""
    found: dict[str, None] = {}
    for requirement in requirements:
        match = _OF_EXTRA.match(requirement)
        if match is None or match["extra"] != extra:
            continue
        own = _OWN_EXTRA.match(match["what"])
        found |= dict.fromkeys([match["what"]] if own is None else packages_of(own["extra"], requirements))
    return list(found)
