"""Seeded histories of two clients of one store, played on two stores at once: every outcome has to be of the same kind.

What is drawn looks like the life of a partition: claims, segments, appends, rolls, renames, takeovers, zombies that go on
writing, mends, deletions and listings, in any order. A step is one call and is waited for, so that a history has one
outcome. What a store may do this way or that is not asked: writing to a file that was deleted, how long an open file
says it is, reading no bytes at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bmq.log.store import (
    AlreadyExists,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    FileStatus,
    LeaseHeld,
    SegmentStore,
    SegmentWriter,
    StorageFull,
    StorageUnavailable,
    StoreError,
)

PARTITION = "topics/t/0"
SEGMENT_BYTES = 1024 * 1024
CLIENTS = 2
SLOW_TAKEOVER_RATE = 0.04  # without the holder's name: seconds on a real cluster
_KINDS = (FileMissing, AlreadyExists, FencedWriter, CorruptFile, StorageFull, LeaseHeld, StorageUnavailable)
_EPOCHS = (5, 6)
_NAMES = ("00000000.log", "00000001.log", "00000002.log", "00000003.log", "00000000.index", "owner")
_WEIGHTS = {
    "claim": 6,
    "write_file": 5,
    "create": 14,
    "append": 24,
    "burst": 5,
    "prove": 6,
    "close": 4,
    "mend": 4,
    "abandon": 1,
    "seal": 3,
    "rename": 2,
    "take_over": 6,
    "delete": 3,
    "look": 4,
    "list": 4,
    "read": 8,
    "read_file": 4,
    "locate": 2,
}

Step = tuple[str, int, tuple[Any, ...]]  # what, by which client, arguments


@dataclass(frozen=True, slots=True)
class Some:
    """One of what is there when the step is played, mostly; else this path, which may not be."""

    path: str
    number: int | None
    is_directory: bool = False


def draw_history(seed: int, length: int = 60) -> list[Step]:
    """The steps of a seed."""
    dice = Random(seed)
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    steps: list[Step] = [("claim", 0, (_EPOCHS[0],)), ("create", 0, (f"{_open(5)}/00000000.log", Durability.HFLUSH))]
    for _ in range(length):
        kind = dice.choices(kinds, weights)[0]
        steps.append((kind, dice.randrange(CLIENTS), arguments_of(kind, dice)))
    return steps


def _open(epoch: int) -> str:
    return f"{PARTITION}/{epoch:08d}.open"


def _sealed(epoch: int) -> str:
    return f"{PARTITION}/{epoch:08d}"


def _directory(dice: Random) -> str:
    epoch = dice.choice(_EPOCHS)
    return dice.choice((_open, _open, _sealed))(epoch)


def _path(dice: Random) -> str:
    return f"{_directory(dice)}/{dice.choice(_NAMES)}"


def _some(dice: Random, *, is_directory: bool = False) -> Some:
    path = _directory(dice) if is_directory else _path(dice)
    return Some(path, dice.randrange(1000) if dice.random() < 0.8 else None, is_directory)


def _new(dice: Random) -> str:
    """A name in a directory that is there more often than not."""
    return f"{_open(dice.choice(_EPOCHS))}/{dice.choice(_NAMES)}" if dice.random() < 0.9 else _path(dice)


def _data(dice: Random) -> bytes:
    size = dice.choice((0, 1, 100, 511, 512, 4095, 4096, 4097, 20_000, 150_000))
    return dice.randbytes(size)


def arguments_of(kind: str, dice: Random) -> tuple[Any, ...]:
    match kind:
        case "claim" | "seal":
            return (dice.choice(_EPOCHS),)
        case "write_file":
            return (_new(dice), _data(dice))
        case "create":
            return (_new(dice), dice.choice(list(Durability)))
        case "append":
            return (_back(dice), _data(dice))
        case "burst":
            return (_back(dice), [_data(dice) for _ in range(dice.randint(2, 6))])
        case "prove" | "close" | "mend" | "abandon":
            return (_back(dice),)
        case "rename":
            is_directory = dice.random() < 0.5
            # Nobody ever opens a sealed directory again, and a store need not expect it.
            target = _sealed(dice.choice(_EPOCHS)) if is_directory else _path(dice)
            return (_some(dice, is_directory=is_directory), target)
        case "take_over":
            return (_some(dice), dice.random() >= SLOW_TAKEOVER_RATE)
        case "delete":
            return (_some(dice, is_directory=dice.random() < 0.3), dice.random() < 0.6)
        case "list":
            return (dice.choice((PARTITION, _some(dice, is_directory=True))),)
        case "read":
            return (_some(dice), dice.choice((0, 1, 300, 512, 5000)), dice.choice((1, 100, 600, 9000)))
        case _:
            return (_some(dice),)


def _back(dice: Random) -> int:
    return dice.choice((0, 0, 0, 1, 1, 2, 3))


@dataclass(eq=False)
class Handle:
    """One writer on every store, and the file it made."""

    writers: list[SegmentWriter]
    holder: str
    file_ids: list[int]
    is_let_go: bool = False
    is_mended: bool = False


@dataclass
class Players:
    """Plays a history on several stores; `stores[n]` are the clients of the n-th."""

    stores: Sequence[Sequence[SegmentStore]]
    handles: list[Handle] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)

    async def play(self, steps: Sequence[Step]) -> None:
        """Raises AssertionError at the first step whose outcomes differ, and if the files do in the end."""
        for number, (kind, client, arguments) in enumerate(steps):
            arguments = tuple([await self._found(argument) for argument in arguments])
            seen = await getattr(self, f"_{kind}")(client, *arguments)
            told = (number, kind, client, tuple(_short(argument) for argument in arguments))
            assert all(outcome == seen[0] for outcome in seen[1:]), (told, seen)
            if seen:
                last = seen[0][-1] if kind in ("append", "burst") else seen[0]
                name = f"{kind} {self.outcome_name(kind, last)}"
                self.outcomes[name] = self.outcomes.get(name, 0) + 1
        await self._compare_files()

    def outcome_name(self, kind: str, outcome: Any) -> str:
        """What `outcomes` calls it."""
        return outcome if isinstance(outcome, str) else "ok"

    async def _found(self, argument: Any) -> Any:
        if not isinstance(argument, Some):
            return argument
        tree = await tree_of(self.stores[0][0], PARTITION)
        there = [path for path, status in tree if status.is_directory == argument.is_directory]
        return argument.path if argument.number is None or not there else there[argument.number % len(there)]

    # --- steps; each gives one outcome for every store

    async def _all(self, client: int, method: str, *arguments: Any, **options: Any) -> list[Any]:
        return [await outcome_of(getattr(store[client], method)(*arguments, **options)) for store in self.stores]

    async def _claim(self, client: int, epoch: int) -> list[Any]:
        await self._all(client, "make_directories", PARTITION)
        return await self._all(client, "make_directory", _open(epoch))

    async def _seal(self, client: int, epoch: int) -> list[Any]:
        return await self._all(client, "rename", _open(epoch), _sealed(epoch))

    async def _write_file(self, client: int, path: str, data: bytes) -> list[Any]:
        return await self._all(client, "write_file", path, data, holder=self._holder(client))

    async def _create(self, client: int, path: str, durability: Durability) -> list[Any]:
        holder = self._holder(client)
        made: list[Any] = await self._all(
            client, "create_segment", path, holder=holder, durability=durability, segment_bytes=SEGMENT_BYTES
        )
        writers = [writer for writer in made if not isinstance(writer, str)]
        if len(writers) == len(made):
            self.handles.append(Handle(writers, holder, [writer.file_id for writer in writers]))
        return [outcome if isinstance(outcome, str) else None for outcome in made]

    async def _append(self, client: int, back: int, data: bytes) -> list[Any]:
        return await self._burst(client, back, [data])

    async def _burst(self, client: int, back: int, pieces: list[bytes]) -> list[Any]:
        """Several on their way at once."""

        async def send(writer: SegmentWriter) -> tuple[Any, ...]:
            answers = [writer.append([piece[:70], piece[70:]]) for piece in pieces]
            results = await asyncio.gather(*answers, return_exceptions=True)
            return tuple(_stopped([kind_of(result) for result in results]))

        return await self._each(back, send)

    async def _prove(self, client: int, back: int) -> list[Any]:
        return _stopped(await self._each(back, lambda writer: writer.prove_ownership()))

    async def _close(self, client: int, back: int) -> list[Any]:
        outcomes = _stopped(await self._each(back, lambda writer: writer.close()))
        if outcomes and not isinstance(outcomes[0], str) and (handle := await self._handle(back)):
            handle.is_mended = True
        return outcomes

    async def _mend(self, client: int, back: int) -> list[Any]:
        """Once: whether a second one answers from memory is the writer's own."""
        handle = await self._handle(back)
        if handle is None or handle.is_mended:
            return []
        outcomes = [await outcome_of(writer.mend()) for writer in handle.writers]
        handle.is_mended = not isinstance(outcomes[0], str)
        return outcomes

    async def _abandon(self, client: int, back: int) -> list[Any]:
        handle = await self._handle(back)
        if handle is not None:
            handle.is_let_go = True
            for writer in handle.writers:
                writer.abandon()
        return []

    async def _rename(self, client: int, source: str, target: str) -> list[Any]:
        return await self._all(client, "rename", source, target)

    async def _take_over(self, client: int, path: str, is_holder_known: bool) -> list[Any]:
        """As an owner does it: the directory is sealed before. (Else a store may take the closed file for mended.)"""
        directory, _, name = path.rpartition("/")
        if directory.endswith(".open"):
            sealed = directory.removesuffix(".open")
            outcomes = await self._all(client, "rename", directory, sealed)
            if any(outcomes):
                return outcomes
            path = f"{sealed}/{name}"
        holder = await self._holder_of(path) if is_holder_known else None
        return await self._all(client, "take_over", path, previous_holder=holder)

    async def _delete(self, client: int, path: str, is_recursive: bool) -> list[Any]:
        return await self._all(client, "delete", path, recursive=is_recursive)

    async def _look(self, client: int, path: str) -> list[Any]:
        return [_shown(status) for status in await self._all(client, "status", path)]

    async def _list(self, client: int, path: str) -> list[Any]:
        listings = await self._all(client, "list_directory", path)
        return [seen if isinstance(seen, str) else tuple(map(_shown, seen)) for seen in listings]

    async def _read(self, client: int, path: str, position: int, length_bytes: int) -> list[Any]:
        outcomes = []
        for store in self.stores:
            status = await store[client].status(path)
            file_id = 0 if status is None else status.file_id
            reading = store[client].read(path, file_id=file_id, position=position, length_bytes=length_bytes)
            outcomes.append(_bytes(await outcome_of(reading)))
        return outcomes

    async def _read_file(self, client: int, path: str) -> list[Any]:
        return [_bytes(seen) for seen in await self._all(client, "read_file", path, length_bytes_max=100_000)]

    async def _locate(self, client: int, path: str) -> list[Any]:
        """Where is each store's own; that it lies somewhere, and which error, is not. An open file may not be known yet."""
        status = await self.stores[0][client].status(path)
        if status is not None and (status.is_open or not status.length_bytes):
            return []
        return [seen if isinstance(seen, str) else bool(seen) for seen in await self._all(client, "locate", path)]

    # --- writers

    async def _each(self, back: int, action: Any) -> list[Any]:
        handle = await self._handle(back)
        return [] if handle is None else [await outcome_of(action(writer)) for writer in handle.writers]

    async def _handle(self, back: int) -> Handle | None:
        """The one before the last `back` whose file is still there: what becomes of the others is not said."""
        there = await self._file_ids()
        left = [handle for handle in self.handles if handle.file_ids[0] in there and not handle.is_let_go]
        return left[-1 - back] if back < len(left) else None

    async def _file_ids(self) -> set[int]:
        return {status.file_id for _, status in await tree_of(self.stores[0][0], PARTITION)}

    def _holder(self, client: int) -> str:
        return f"holder-{client}"

    async def _holder_of(self, path: str) -> str | None:
        status = await self.stores[0][0].status(path)
        found = [handle.holder for handle in self.handles if status and handle.file_ids[0] == status.file_id]
        return found[0] if found else "nobody"

    # --- the end

    async def _compare_files(self) -> None:
        """Whatever is still open is taken over, and then every file is compared, byte for byte."""
        trees = [await tree_of(store[1], PARTITION) for store in self.stores]
        shown = [[(path, _shown(status)) for path, status in tree] for tree in trees]
        assert all(tree == shown[0] for tree in shown[1:]), shown
        for place, (path, status) in enumerate(trees[0]):
            if status.is_directory:
                continue
            holder = await self._holder_of(path)
            lengths = await self._all(1, "take_over", path, previous_holder=holder)
            contents = [
                _bytes(
                    await outcome_of(
                        store[1].read(path, file_id=tree[place][1].file_id, position=0, length_bytes=lengths[0])
                    )
                )
                for store, tree in zip(self.stores, trees, strict=True)
            ]
            assert all(length == lengths[0] for length in lengths[1:]), (path, lengths)
            assert all(content == contents[0] for content in contents[1:]), path


async def tree_of(store: SegmentStore, path: str) -> list[tuple[str, FileStatus]]:
    found: list[tuple[str, FileStatus]] = []
    try:
        entries = await store.list_directory(path)
    except FileMissing:
        return found
    for status in entries:
        found.append((f"{path}/{status.name}", status))
        if status.is_directory:
            found += await tree_of(store, f"{path}/{status.name}")
    return found


async def outcome_of(call: Any) -> Any:
    """The result, or the name of the kind of error."""
    try:
        return await call
    except StoreError as error:
        return kind_of(error)


def kind_of(result: Any) -> Any:
    """Errors that only say "not so" (a closed writer, a directory that is not empty) are one kind."""
    if not isinstance(result, BaseException):
        return result
    if not isinstance(result, StoreError):
        raise result
    return next((kind.__name__ for kind in _KINDS if isinstance(result, kind)), "refused")


def _stopped(outcomes: list[Any]) -> list[Any]:
    """A writer whose file was taken may see its connections break before it knows why; `mend` tells."""
    return ["refused" if outcome == "FencedWriter" else outcome for outcome in outcomes]


def _shown(status: Any) -> Any:
    if not isinstance(status, FileStatus):
        return status
    length_bytes = None if status.is_open else status.length_bytes
    return (status.name, status.is_directory, status.is_open, length_bytes)


def _bytes(seen: Any) -> Any:
    return seen if isinstance(seen, str) else bytes(seen)


def _short(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_short(part) for part in argument]
    return f"{len(argument)} bytes" if isinstance(argument, bytes) else argument
