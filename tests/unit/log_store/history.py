"""Random histories over a store against the simplest model there is: a dict of paths.

One step is one call; its outcome (a value, or the class of the error) has to be what the model says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from bmq.log.store import (
    AlreadyExists,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    SegmentStore,
    SegmentWriter,
    StoreError,
)

_DIRECTORIES = ["a", "a/5.open", "a/5", "a/6.open", "b"]
_PATHS = [*_DIRECTORIES, "f", "a/f", "a/5.open/f", "a/5.open/g", "a/5/f", "a/6.open/f"]
_path = st.sampled_from(_PATHS)
_data = st.binary(max_size=40)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("make"), st.sampled_from(_DIRECTORIES)),
        st.tuples(st.just("write_file"), _path, _data),
        st.tuples(st.just("create"), _path, st.sampled_from(list(Durability))),
        st.tuples(st.just("append"), st.integers(0, 3), _data),
        st.tuples(st.just("close"), st.integers(0, 3)),
        st.tuples(st.just("rename"), _path, _path),
        st.tuples(st.just("take_over"), _path),
        st.tuples(st.just("delete"), _path, st.booleans()),
        st.tuples(st.just("read"), _path, st.integers(0, 30), st.integers(0, 30)),
        st.tuples(st.just("look"), _path),
        st.tuples(st.just("list"), st.sampled_from(["", *_DIRECTORIES])),
    ),
    max_size=40,
)


@dataclass(eq=False)
class ModelFile:
    """`is_lost`: its writer has been stopped by a takeover or a deletion."""

    data: bytes = b""
    is_open: bool = False
    is_lost: bool = False


@dataclass
class Model:
    """None stands for a directory."""

    nodes: dict[str, ModelFile | None] = field(default_factory=dict)
    writers: list[ModelFile] = field(default_factory=list)

    def step(self, name: str, *arguments: Any) -> Any:
        return getattr(self, f"_{name}")(*arguments)

    def _need_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and self.nodes.get(parent, 0) is not None:
            raise FileMissing(path)

    def _below(self, path: str) -> list[str]:
        return [other for other in self.nodes if other.startswith(path + "/")]

    def _file(self, path: str) -> ModelFile:
        file = self.nodes.get(path)
        if file is None:
            raise FileMissing(path)
        return file

    def _make(self, path: str) -> None:
        self._need_parent(path)
        if self.nodes.setdefault(path, None) is not None:
            raise AlreadyExists(path)

    def _add(self, path: str, file: ModelFile) -> None:
        self._need_parent(path)
        if path in self.nodes:
            raise AlreadyExists(path)
        self.nodes[path] = file

    def _write_file(self, path: str, data: bytes) -> None:
        self._add(path, ModelFile(data))

    def _create(self, path: str, durability: Durability) -> None:
        file = ModelFile(is_open=True)
        self._add(path, file)
        self.writers.append(file)

    def _append(self, index: int, data: bytes) -> int | None:
        if index >= len(self.writers):
            return None
        file = self.writers[index]
        if file.is_lost:
            raise FencedWriter
        if not file.is_open:
            raise StoreError
        file.data += data
        return len(file.data)

    def _close(self, index: int) -> int | None:
        if index >= len(self.writers):
            return None
        length = self._append(index, b"")
        self.writers[index].is_open = False
        return length

    def _rename(self, source: str, target: str) -> None:
        if source not in self.nodes or target.startswith(source + "/"):
            raise FileMissing(source)
        self._need_parent(target)
        if target in self.nodes:
            raise AlreadyExists(target)
        moved = {target + path[len(source) :]: self.nodes.pop(path) for path in [source, *self._below(source)]}
        self.nodes.update(moved)

    def _take_over(self, path: str) -> int:
        file = self._file(path)
        file.is_lost |= file.is_open
        file.is_open = False
        return len(file.data)

    def _delete(self, path: str, recursive: bool) -> bool:
        if path not in self.nodes:
            return False
        if self._below(path) and not recursive:
            raise StoreError
        for gone in [path, *self._below(path)]:
            file = self.nodes.pop(gone)
            if file is not None:
                file.is_lost |= file.is_open
                file.is_open = False
        return True

    def _read(self, path: str, position: int, length_bytes: int) -> bytes:
        data = self._file(path).data
        if position + length_bytes > len(data):
            raise CorruptFile
        return data[position : position + length_bytes]

    def _look(self, path: str) -> tuple[Any, ...] | None:
        return self._status(path) if path in self.nodes else None

    def _status(self, path: str) -> tuple[Any, ...]:
        file = self.nodes[path]
        name = path.rpartition("/")[2]
        if file is None:
            return (name, True, False, 0)
        return (name, False, file.is_open, None if file.is_open else len(file.data))

    def _list(self, path: str) -> list[tuple[Any, ...]]:
        if path and self.nodes.get(path, 0) is not None:
            raise FileMissing(path)
        return sorted((self._status(p) for p in self.nodes if p.rpartition("/")[0] == path), key=lambda s: s[0])


class Driver:
    """Performs the same steps on a store. `ignored` are names at the root that the store keeps for itself."""

    def __init__(self, store: SegmentStore, ignored: frozenset[str] = frozenset()) -> None:
        self._store = store
        self._ignored = ignored
        self._writers: list[SegmentWriter] = []

    async def step(self, name: str, *arguments: Any) -> Any:
        return await getattr(self, f"_{name}")(*arguments)

    async def _make(self, path: str) -> None:
        await self._store.make_directory(path)

    async def _write_file(self, path: str, data: bytes) -> None:
        await self._store.write_file(path, data, holder="h")

    async def _create(self, path: str, durability: Durability) -> None:
        self._writers.append(
            await self._store.create_segment(path, holder="h", durability=durability, segment_bytes=1 << 20)
        )

    async def _append(self, index: int, data: bytes) -> int | None:
        return None if index >= len(self._writers) else await self._writers[index].append([data])

    async def _close(self, index: int) -> int | None:
        return None if index >= len(self._writers) else await self._writers[index].close()

    async def _rename(self, source: str, target: str) -> None:
        await self._store.rename(source, target)

    async def _take_over(self, path: str) -> int:
        return await self._store.take_over(path, previous_holder="h")

    async def _delete(self, path: str, recursive: bool) -> bool:
        return await self._store.delete(path, recursive=recursive)

    async def _read(self, path: str, position: int, length_bytes: int) -> bytes:
        status = await self._store.status(path)
        if status is None or status.is_directory:
            raise FileMissing(path)
        return bytes(await self._store.read(path, file_id=status.file_id, position=position, length_bytes=length_bytes))

    async def _look(self, path: str) -> tuple[Any, ...] | None:
        status = await self._store.status(path)
        return None if status is None else _shown(status)

    async def _list(self, path: str) -> list[tuple[Any, ...]]:
        return [_shown(s) for s in await self._store.list_directory(path) if s.name not in self._ignored]


def _shown(status: Any) -> tuple[Any, ...]:
    return (status.name, status.is_directory, status.is_open, None if status.is_open else status.length_bytes)


async def compare(steps: list[tuple[Any, ...]], driver: Driver) -> None:
    """Every step's outcome equals the model's; a model error of class StoreError accepts any of the store's."""
    model = Model()
    for step in steps:
        try:
            expected: Any = model.step(*step)
        except StoreError as error:
            expected = type(error)
        try:
            got: Any = await driver.step(*step)
        except StoreError as error:
            got = type(error)
        if isinstance(expected, type):
            assert isinstance(got, type) and issubclass(got, expected), (step, got, expected)
        else:
            assert got == expected, (step, got, expected)
