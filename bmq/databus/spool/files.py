"""Small files that are replaced as a whole, and writes that end or fail as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600


def replace_file(path: Path, content: bytes, *, is_synced: bool) -> None:
    """A reader finds the former content or the new one. Raises OSError."""
    made = path.with_name(f"{path.name}.new")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
    try:
        write_all(descriptor, content)
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    made.replace(path)
    if is_synced:
        sync_directory(path.parent)


def read_small(path: Path, bytes_max: int) -> bytes | None:
    """None: there is no such file. Raises OSError, ValueError: it is longer than `bytes_max`."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except FileNotFoundError:
        return None
    if len(content) > bytes_max:
        raise ValueError(f"it has more than {bytes_max} bytes")
    return content


def write_all(descriptor: int, content: bytes) -> None:
    """Raises OSError; a part may be written then."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make names of files in it durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
