"""A new file that only its owner reads, whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

MODE: Final = 0o600


@contextmanager
def private_file(path: Path, failed: Callable[[str], Exception]) -> Iterator[BinaryIO]:
    """The open file; its bytes are on the disk at the end. It is removed when the body raises.

    The body does nothing else that can raise OSError. Raises what `failed` makes of one sentence: the file is there already, or
    cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    except OSError as error:
        raise failed(_sentence(path, error)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise failed(_sentence(path, error)) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _sentence(path: Path, error: OSError) -> str:
    return f"cannot write {path}: {error.strerror or error}"
