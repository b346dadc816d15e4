"""Requests whose elements are answered each by itself: cut into small requests, whose answers are joined. Pure.

A part has some elements of the request's innermost arrays, in their order, below copies of what contains them; so it is a
request as a client could have sent it. The answers are joined to what the whole request would have been answered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from bmq.protocol.message import Message
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX, Pace
from bmq.protocol.wire_turns import InTurns

Path = tuple[str, ...]
"""Names of the arrays from a message to its elements, outermost first."""


class Part(NamedTuple):
    """`continues`: how many of its outermost containers are the last ones of the part before."""

    request: Any
    continues: int


def parts_of(request: Any, path: Path, at_once: int = ELEMENTS_PER_TURN_MAX) -> Iterator[Part]:
    """The parts of a request, in order: each has `at_once` elements of `path` at most, where an empty container counts as
    one. At least one; the request itself if it is small.

    A large request is used up: its arrays are emptied, so that the memory of what is done can be freed.
    """
    some: list[_Run] = []
    count, before = 0, _NO_RUN
    is_whole = True
    for run in _runs(request, path, at_once):
        cost = max(len(run.elements or ()), 1)
        if some and count + cost > at_once:
            yield Part(_rebuilt(request, path, some), _shared(before, some[0]))
            is_whole = False
            before, some, count = some[-1], [], 0
        some.append(run)
        count += cost
    yield Part(request, 0) if is_whole else Part(_rebuilt(request, path, some), _shared(before, some[0]))


def elements_of(message: Message) -> InTurns[int]:
    """The number of elements of all its arrays."""
    count = 0
    inner = [message]
    pace = Pace()
    while inner:
        one = inner.pop()
        for name in one.__slots__:
            value = getattr(one, name)
            if value.__class__ in _ARRAYS:
                count += len(value)
                if value and isinstance(value[0], Message):
                    inner += value
        if pace.is_over():
            yield
    return count


_ARRAYS: Final = (list, tuple)


class Joined:
    """The answers of a request's parts, joined. `path`: to the answers of its elements, in the same order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.response: Any = None

    def add(self, part: Part, response: Any) -> bool:
        """The answer of the next part; False: the request failed as a whole, and `response` is its answer."""
        is_failed = _code_of(response) != 0
        if self.response is None or is_failed:
            self.response = response
        else:
            _join(self.response, response, self._path, part.continues)
        return not is_failed


def _code_of(answer: Any) -> int:
    code: int = getattr(answer, "error_code", 0)
    return code


class _Run(NamedTuple):
    """Neighbouring elements of one container. `chain`: the containers, outermost first; `elements` None: it has none."""

    chain: tuple[Any, ...]
    elements: Sequence[Any] | None


_NO_RUN: Final = _Run((), None)


def _runs(owner: Any, path: Path, at_once: int) -> Iterator[_Run]:
    items = _taken(owner, path[0], at_once)
    if not items:
        yield _NO_RUN
    elif len(path) == 1:
        while items:
            yield _Run((), items[: -at_once - 1 : -1])
            del items[-at_once:]
    else:
        while items:
            item = items.pop()
            for chain, elements in _runs(item, path[1:], at_once):
                yield _Run((item, *chain), elements)


def _taken(owner: Any, name: str, at_once: int) -> list[Any]:
    """The elements, the last one first. A large array gives them away, so that they can be freed one after the other."""
    items = list(reversed(getattr(owner, name) or ()))
    if len(items) > at_once:
        setattr(owner, name, ())
    return items


def _shared(before: _Run, after: _Run) -> int:
    count = 0
    for one, other in zip(before.chain, after.chain, strict=False):
        if one is not other:
            break
        count += 1
    return count


def _rebuilt(owner: Any, path: Path, runs: Sequence[_Run]) -> Any:
    if not runs or all(not run.chain and run.elements is None for run in runs):
        return owner
    if len(path) == 1:
        elements = [one for run in runs for one in run.elements or ()]
        return owner if len(elements) == len(getattr(owner, path[0])) else replace(owner, **{path[0]: elements})
    inner = []
    for _, group in groupby(runs, key=lambda run: id(run.chain[0])):
        below = list(group)
        inner.append(_rebuilt(below[0].chain[0], path[1:], [_Run(run.chain[1:], run.elements) for run in below]))
    return replace(owner, **{path[0]: inner})


def _join(into: Any, more: Any, path: Path, continues: int) -> None:
    items = getattr(into, path[0])
    if not isinstance(items, list):
        items = list(items or ())
        setattr(into, path[0], items)
    added = getattr(more, path[0]) or ()
    if continues and len(path) > 1 and items and added:
        if _code_of(added[0]):
            items[-1] = added[0]  # its container failed as a whole
        elif not _code_of(items[-1]):
            _join(items[-1], added[0], path[1:], continues - 1)
        added = added[1:]
    items.extend(added)


def distinct_elements(owner: Any, path: Path, key: Callable[[Any], Hashable], pace: Pace) -> InTurns[Any]:
    """`owner` with one element of `path` for each key in each container: the last one, at the place of the first."""
    items: Iterable[Any] = getattr(owner, path[0]) or ()
    if len(path) > 1:
        inner = []
        for item in items:
            inner.append((yield from distinct_elements(item, path[1:], key, pace)))
            if pace.is_over():
                yield
        return replace(owner, **{path[0]: inner})
    kept: dict[Hashable, Any] = {}
    for item in items:
        kept[key(item)] = item
        if pace.is_over():
            yield
    once = replace(owner, **{path[0]: list(kept.values())})
    setattr(owner, path[0], ())  # what `parts_of` frees must not be kept here
    return once
