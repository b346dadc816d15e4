"""Large memory that costs nothing until it is touched. Pure."""

from __future__ import annotations

import mmap
from typing import Final

_HUGE_BYTES_MIN: Final = 4 << 20


def fresh_memory(size_bytes: int) -> mmap.mmap:
    """So many zero bytes, at least one, given back as soon as nobody has them any more.

    From 4 MiB on in huge pages where the system has them: decompressing into small ones takes up to twice as long.
    """
    # Python's default is memory to be shared, with dearer pages.
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size_bytes >= _HUGE_BYTES_MIN and (advice := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
        try:
            memory.madvise(advice)
        except OSError:
            pass  # a kernel without huge pages
    return memory
