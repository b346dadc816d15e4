"""Parts of a request whose elements are decoded when their part is due, and the answer of which the parts are encoded at once.

The memory of a large request is that of its frame and of its encoded answer. Its frame is read twice: first as a whole, so that
nothing is carried out of a request that is malformed or refused, then part by part.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from bmq.protocol.array_codec import ArrayCodec, ArrayReader, ArrayWriter, nested_codec
from bmq.protocol.request_parts import Joined, Part, Path, distinct_elements, parts_of
from bmq.protocol.turns import Pace
from bmq.protocol.wire import Buffer
from bmq.protocol.wire_turns import InTurns

Repeats = tuple[Path, Callable[[Any], Hashable]]
"""The array whose elements may repeat, and what tells two of them apart."""


class StreamedParts:
    """`path`: the arrays from the request to its elements, of which two at most are read around. `at_once`: elements of a part.
    `distinct`: of elements alike in one container the last one counts, at the place of the first.

    `named`: (the element's container, the element) to what it names. Elements whose name stands more than once in the whole
    request stand twice in their part, so that its handler sees the same.
    """

    def __init__(
        self,
        codec: ArrayCodec,
        data: Buffer,
        position: int,
        path: Path,
        at_once: int,
        distinct: Repeats | None = None,
        named: Callable[[Any, Any], Hashable] | None = None,
        counted: Sequence[Path] = (),
    ) -> None:
        self._data = data
        self._reader = ArrayReader(codec, data, position)
        self._inner_codec = None if len(path) == 1 else nested_codec(codec, path[1])
        self._path = path
        self._at_once = at_once
        self._named = named
        self._pace = Pace()
        self._outer = _Distinct(distinct, 1)
        self._inner = _Distinct(distinct, 2)
        self._once: set[int] = set()
        self._twice: set[int] = set()
        self._next = 0
        self._read = 0
        self._long: dict[int, _LongElement] = {}  # the outermost elements that have more than a part's elements
        self._open: _LongElement | None = None  # the one of which the next part has elements
        self.counts = dict.fromkeys(counted, 0)
        """Elements of the arrays that are to be counted, where the request is read around the first of each path."""
        self.longest = 0
        """The elements of the longest of the inner arrays that are read around."""
        self.request: Any = None
        """With an empty array in the place of the one that is read around."""

    @property
    def count(self) -> int:
        """Elements of the outermost array, or -1 if it is null."""
        return self._reader.count

    def survey(self) -> InTurns[None]:
        """Read the whole request once. Raises MalformedMessage."""
        read = None if self._inner_codec is None else self._survey_element
        self.request = yield from self._reader.survey(self._count_outer, read=read)
        self._next = self._reader.first
        self._outer.end()
        self._once = set()

    def next(self) -> InTurns[Iterator[Part] | None]:
        """The next parts; None: there are no more."""
        items: list[Any] = []
        cost = 0
        continues = 0
        if self._open is not None:
            continues = self._open.is_begun
            item = yield from self._open.next(self._at_once)
            items.append(item)
            cost = self._at_once
            if self._open.is_read:
                self._open = None
        total = self._outer.count(self.count)
        while self._read < total and cost < self._at_once:
            position = self._outer.position(self._read, self._next)
            if position in self._long:
                if items:
                    break  # it begins a part
                self._open = self._long.pop(position)
                self._next = self._open.end
                self._read += 1
                return (yield from self.next())
            item, self._next = yield from self._reader.element(position)
            self._read += 1
            items.append(item)
            cost += max(_cost(item, self._path[1:]), 1)
        if not items:
            return None
        chunk = replace(self.request, **{self._path[0]: items})
        if self._inner.repeats is not None:
            chunk = yield from distinct_elements(chunk, *self._inner.repeats, self._pace)
        return self._parts(chunk, continues)

    def _parts(self, chunk: Any, continues: int) -> Iterator[Part]:
        for part in parts_of(chunk, self._path, self._at_once):
            yield self._with_repeats(part._replace(continues=max(part.continues, continues)))
            continues = 0

    def _survey_element(self, position: int, left: list[int]) -> InTurns[tuple[Any, int]]:
        """An outermost element, without its own elements, which are counted and looked at."""
        assert self._inner_codec is not None
        reader = ArrayReader(self._inner_codec, self._data, position)
        self._inner.begin()
        shell = yield from reader.survey(self._count_inner, left)
        positions = self._inner.end()
        for path in self.counts:
            if len(path) > 1:
                self.counts[path] += max(reader.count, 0)
        self.longest = max(self.longest, reader.count)
        if reader.count > self._at_once:
            self._long[position] = _LongElement(reader, shell, self._path[1], positions)
        return shell, reader.end

    def _count_outer(self, head: Any, element: Any, position: int) -> InTurns[None]:
        self._outer.add(element, position)
        for path in self.counts:
            if len(path) == 1:
                self.counts[path] += 1
            elif self._inner_codec is None:
                self.counts[path] += _cost(element, path[1:])
        return
        yield

    def _count_inner(self, head: Any, element: Any, position: int) -> InTurns[None]:
        self._inner.add(element, position)
        if self._named is not None:
            name = hash(self._named(head, element))
            (self._twice if name in self._once else self._once).add(name)
        return
        yield

    def _with_repeats(self, part: Part) -> Part:
        if self._named is None or not self._twice:
            return part
        outer, inner = self._path
        containers = []
        for container in getattr(part.request, outer):
            elements = []
            for one in getattr(container, inner):
                elements += [one] * (1 + (hash(self._named(container, one)) in self._twice))
            containers.append(replace(container, **{inner: elements}))
        return part._replace(request=replace(part.request, **{outer: containers}))


class _Distinct:
    """The positions of an array's distinct elements, if its elements may repeat. `depth`: of the array it is for."""

    def __init__(self, repeats: Repeats | None, depth: int) -> None:
        self.repeats = repeats if repeats is not None and len(repeats[0]) == depth else None
        self._last: dict[Hashable, int] = {}  # position of the last element of a key, in the order of the first ones
        self._positions: array[int] | None = None

    def begin(self) -> None:
        self._last = {}

    def add(self, element: Any, position: int) -> None:
        if self.repeats is not None:
            self._last[self.repeats[1](element)] = position

    def end(self) -> array[int] | None:
        """The positions; None: all elements count."""
        if self.repeats is not None:
            self._positions = array("I", self._last.values())
            self._last = {}
        return self._positions

    def count(self, count: int) -> int:
        return count if self._positions is None else len(self._positions)

    def position(self, number: int, following: int) -> int:
        return following if self._positions is None else self._positions[number]


class _LongElement:
    """An outermost element whose own elements are read some at a time."""

    def __init__(self, reader: ArrayReader, shell: Any, name: str, positions: array[int] | None) -> None:
        self._reader = reader
        self._shell = shell
        self._name = name
        self._positions = positions
        self._next = reader.first
        self._read = 0
        self.end = reader.end

    @property
    def is_begun(self) -> bool:
        return self._read > 0

    @property
    def is_read(self) -> bool:
        return self._read == (self._reader.count if self._positions is None else len(self._positions))

    def next(self, count: int) -> InTurns[Any]:
        """A copy of it with the next `count` elements at most."""
        items: list[Any] = []
        while len(items) < count and not self.is_read:
            position = self._next if self._positions is None else self._positions[self._read]
            item, self._next = yield from self._reader.element(position)
            items.append(item)
            self._read += 1
        return replace(self._shell, **{self._name: items})


def _cost(owner: Any, path: Path) -> int:
    if not path:
        return 1
    items = getattr(owner, path[0]) or ()
    return len(items) if len(path) == 1 else sum(max(_cost(item, path[1:]), 1) for item in items)


class EncodedJoined:
    """The answers of a request's parts, joined as Joined does it, and encoded up to the last elements, which may go on."""

    def __init__(self, path: Path, codec: ArrayCodec) -> None:
        self._name = path[0]
        self._inner_name = path[1] if len(path) > 1 else ""
        self._joined = Joined(path)
        self._writer = ArrayWriter(codec)
        self._inner_codec = None if len(path) == 1 else nested_codec(codec, path[1])
        self._inner_writer: ArrayWriter | None = None
        self._inner_of: Any = None  # the outermost element, the last one, of whose own elements that writer has some
        self._is_encoding = False

    @property
    def response(self) -> Any:
        """The answer if it is one message: of a single part, or of a request that failed as a whole."""
        return self._joined.response

    @property
    def error_code(self) -> int:
        """The error code of the answer as a whole."""
        code: int = getattr(self.response, "error_code", 0)
        return code

    def add(self, part: Part, response: Any) -> InTurns[bool]:
        """As Joined.add."""
        if self._joined.response is not None:
            yield from self._encode(1)
        is_added = self._joined.add(part, response)
        self._is_encoding = is_added and (self._is_encoding or self._joined.response is not response)
        return is_added

    def finish(self) -> InTurns[list[bytearray] | None]:
        """The pieces of the encoded body; None: the answer is `response`."""
        if not self._is_encoding:
            return None
        yield from self._encode(0)
        return (yield from self._writer.finish(self._joined.response))

    def _encode(self, kept: int) -> InTurns[None]:
        """All its elements but so many last ones."""
        response = self._joined.response
        items = list(getattr(response, self._name) or ())
        items.reverse()
        while len(items) > kept:
            item = items.pop()
            if item is self._inner_of and self._inner_writer is not None:
                yield from self._encode_inner(self._inner_writer, item, 0)
                self._writer.add_encoded((yield from self._inner_writer.finish(item)))
            else:
                yield from self._writer.add(response.__class__, item)
        setattr(response, self._name, items)
        if items and self._inner_codec is not None and len(getattr(items[0], self._inner_name) or ()) > 1:
            if items[0] is not self._inner_of:
                self._inner_of, self._inner_writer = items[0], ArrayWriter(self._inner_codec)
            assert self._inner_writer is not None
            yield from self._encode_inner(self._inner_writer, items[0], 1)

    def _encode_inner(self, writer: ArrayWriter, item: Any, kept: int) -> InTurns[None]:
        elements = list(getattr(item, self._inner_name))
        elements.reverse()
        while len(elements) > kept:
            yield from writer.add(item.__class__, elements.pop())
        setattr(item, self._inner_name, elements)
