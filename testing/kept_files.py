"""Files that are made from others and kept in the user's cache, so that no other run or clone makes them again."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

KEY_CHARACTERS: Final = 16


def cache_directory() -> Path:
    """XDG_CACHE_HOME, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bmq"


def key_of(parts: Iterable[bytes]) -> str:
    """The same for the same parts, in their order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:KEY_CHARACTERS]


def kept_directory(place: Path, make: Callable[[Path], None]) -> Path:
    """`place`, which `make` fills if it is not there. Whole or not there: two that make it at once keep the first one's.

    What `make` raises is passed on, and nothing is kept.
    """
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    try:
        make(new)
        new.rename(place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return place
