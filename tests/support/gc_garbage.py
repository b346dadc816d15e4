"""Objects of the product that nothing refers to but a circle of theirs: the garbage collector has to look for them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_in_circles() -> Iterator[list[str]]:
    """The types of such objects that were made in the block, in order of their names, once it has ended."""
    found: list[str] = []
    gc.collect()
    flags = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += sorted(type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith("bmq."))
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
