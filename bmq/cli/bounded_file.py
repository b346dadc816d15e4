"""Reads a file that an option names, whole and within a bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def read_bounded(path: Path, bytes_max: int, failed: Callable[[str], Exception]) -> bytes:
    """The file's bytes. Raises what `failed` makes of one sentence: it cannot be read, or it is longer."""
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise failed(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > bytes_max:
        raise failed(f"{path} has more than {bytes_max} bytes")
    return data
