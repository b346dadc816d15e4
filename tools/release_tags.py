"""Whether the tags of a commit and the version of the package say the same. Decisions only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

TAG: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
"""The tag of a release: v1.2.3. Other tags are no releases."""


def numbers_of(tag: str) -> tuple[int, ...] | None:
    found = TAG.fullmatch(tag)
    return tuple(map(int, found.groups())) if found else None


def tag_problem(version: str, here: Iterable[str], reached: Iterable[str]) -> str:
    """One sentence; empty: none.

    `here`: tags of the commit itself. `reached`: tags of the commit and of those before it.
    """
    own = numbers_of(f"v{version}")
    if own is None:
        return f"the version {version} is not of the form 1.2.3"
    for tag in here:
        if (numbers := numbers_of(tag)) is not None and numbers != own:
            return f"the tag {tag} is at a commit whose version is {version}"
    released = [numbers for tag in reached if (numbers := numbers_of(tag)) is not None]
    if released and max(released) > own:
        return f"the version {version} is older than the release {'.'.join(map(str, max(released)))}"
    return ""
