"""Gives back what loading compiled loops has left in memory: freed pages of the heap, and the compiler's code."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MAPS: Final = Path("/proc/self/smaps")
_MADV_DONTNEED: Final = 4


def release(library: str, maps: Path = MAPS) -> int:
    """Bytes of code that are not mapped in any more. `library`: part of the file name of one that is hardly called any more.

    What is needed after all comes back from the file. Does nothing where there is no /proc, or another C library.
    """
    dropped = 0
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for begin, end in unwritten(maps.read_text().splitlines(), library):
            if libc.madvise(begin, end - begin, _MADV_DONTNEED) == 0:
                dropped += end - begin
    return dropped


def unwritten(lines: Iterable[str], library: str) -> Iterator[tuple[int, int]]:
    """Mappings of the library's file that nobody may write and nobody has written: all of it is still in the file.

    The loader has written into those that it made read-only afterwards: a page of them would come back as it was before.
    """
    place: tuple[int, int] | None = None
    for line in lines:
        first, *rest = line.split()
        if not first.endswith(":"):
            path = rest[4] if len(rest) > 4 else ""
            begin, _, end = first.partition("-")
            is_library = library in path.rpartition("/")[2] and "w" not in rest[0]
            place = (int(begin, 16), int(end, 16)) if is_library else None
        elif first == "Anonymous:" and place is not None and rest[0] == "0":
            yield place
