"""What every `SegmentStore` promises. A store's own test module subclasses `StoreContract` and gives it two clients.

`pair.owner` and `pair.successor` are the store as an owner that is about to be replaced sees it, and as its successor
does. On a local directory both are the one store of the process, elsewhere they are two clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from bmq.log.store import (
    AlreadyExists,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    SegmentStore,
    SegmentWriter,
    StoreError,
    WriterBroken,
)

PARTITION = "topics/t/0"
SEGMENT_BYTES = 1024 * 1024
REPORTS_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Pair:
    owner: SegmentStore
    successor: SegmentStore


async def create(
    store: SegmentStore, path: str, *, holder: str = "owner", durability: Durability = Durability.HFLUSH
) -> SegmentWriter:
    return await store.create_segment(path, holder=holder, durability=durability, segment_bytes=SEGMENT_BYTES)


async def claimed(store: SegmentStore, epoch: int = 5) -> str:
    """A partition with one open epoch directory; its path."""
    path = f"{PARTITION}/{epoch:08d}.open"
    await store.make_directories(PARTITION)
    await store.make_directory(path)
    return path


async def read_all(store: SegmentStore, path: str, length_bytes: int) -> bytes:
    status = await store.status(path)
    assert status is not None
    return bytes(await store.read(path, file_id=status.file_id, position=0, length_bytes=length_bytes))


def sealed(open_path: str) -> str:
    return open_path.removesuffix(".open")


async def assert_stopped(writer: SegmentWriter, *, is_renamed: bool = True) -> None:
    """A newer owner has the file: nothing is acknowledged any more, and whoever wants to mend hears why.

    Where the directory was not renamed (which every owner does first) a mend may find the file closed and say so.
    """
    with pytest.raises((FencedWriter, WriterBroken)):
        await writer.append([b"late"])
    if is_renamed:
        with pytest.raises(FencedWriter):
            await writer.mend()


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until something has happened; what never happens ends in an assertion."""
    for _ in range(100_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


async def _check_nodes(pair: Pair, path: str, replicas: int) -> None:
    """A store without replication names no nodes; of the others some need a moment until all nodes have reported."""
    if pair.owner.replicas_wanted == 1 and not await pair.successor.locate(path):
        return
    async with asyncio.timeout(REPORTS_S_MAX):
        while len(nodes := await pair.successor.locate(path)) != replicas:
            assert len(nodes) <= replicas
            await asyncio.sleep(0.02)
    assert list(nodes) == sorted(set(nodes))
    for node in nodes:
        host, _, port = node.rpartition(":")
        assert host and 0 < int(port) < 65536


class StoreContract:
    # --- the tree

    async def test_a_directory_is_made_once_and_never_with_its_parents(self, pair: Pair) -> None:
        with pytest.raises(FileMissing):
            await pair.owner.make_directory("a/b")
        await pair.owner.make_directory("a")
        await pair.owner.make_directory("a")
        await pair.owner.make_directory("a/b")
        await pair.owner.make_directories("x/y/z")
        await pair.owner.make_directories("x/y/z")
        assert [s.name for s in await pair.successor.list_directory("") if s.is_directory] == ["a", "x"]
        assert (await pair.successor.list_directory("x/y"))[0].name == "z"

    async def test_a_listing_is_sorted_and_says_what_is_what(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        writer = await create(pair.owner, f"{path}/00000001.log")
        await pair.owner.write_file(f"{path}/00000000.index", b"index", holder="owner")
        await pair.owner.make_directory(f"{path}/sub")
        entries = await pair.successor.list_directory(path)
        assert [(e.name, e.is_directory, e.is_open) for e in entries] == [
            ("00000000.index", False, False),
            ("00000001.log", False, True),
            ("sub", True, False),
        ]
        assert entries[0].length_bytes == 5
        assert len({e.file_id for e in entries}) == 3
        assert entries[1].file_id == writer.file_id
        await writer.close()

    async def test_what_is_not_there_is_missing(self, pair: Pair) -> None:
        with pytest.raises(FileMissing):
            await pair.owner.list_directory("nothing")
        with pytest.raises(FileMissing):
            await pair.owner.read_file("nothing", length_bytes_max=10)
        with pytest.raises(FileMissing):
            await pair.owner.take_over("nothing", previous_holder=None)
        with pytest.raises(FileMissing):
            await pair.owner.rename("nothing", "something")
        with pytest.raises(FileMissing):
            await pair.owner.write_file("nothing/file", b"", holder="owner")
        assert await pair.owner.status("nothing/at/all") is None
        assert await pair.owner.delete("nothing") is False

    async def test_a_file_may_be_empty(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/name", b"", holder="owner")
        status = await pair.successor.status(f"{path}/name")
        assert status is not None
        assert (status.length_bytes, status.is_open) == (0, False)
        assert await pair.successor.read_file(f"{path}/name", length_bytes_max=10) == b""
        for client in (pair.owner, pair.successor):
            with pytest.raises(AlreadyExists):
                await client.write_file(f"{path}/name", b"", holder="owner")
        assert await pair.successor.take_over(f"{path}/name", previous_holder="owner") == 0
        assert await pair.owner.delete(f"{path}/name") is True

    async def test_deleting_takes_a_full_directory_only_with_what_is_in_it(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/owner", b"me", holder="owner")
        with pytest.raises(StoreError):
            await pair.owner.delete(path)
        assert await pair.owner.status(f"{path}/owner") is not None
        assert await pair.owner.delete(path, recursive=True) is True
        assert await pair.owner.status(path) is None
        assert await pair.owner.delete(path, recursive=True) is False

    # --- rename

    @pytest.mark.parametrize("is_target_empty", [True, False])
    async def test_a_directory_is_never_renamed_into_or_over_another(self, pair: Pair, is_target_empty: bool) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/owner", b"me", holder="owner")
        await pair.owner.make_directory(sealed(path))
        if not is_target_empty:
            await pair.owner.write_file(f"{sealed(path)}/file", b"old", holder="owner")
        with pytest.raises(AlreadyExists):
            await pair.successor.rename(path, sealed(path))
        assert [s.name for s in await pair.successor.list_directory(PARTITION)] == [sealed(path)[-8:], path[-13:]]
        assert len(await pair.successor.list_directory(sealed(path))) == (0 if is_target_empty else 1)

    async def test_a_file_is_never_renamed_over_another(self, pair: Pair) -> None:
        await pair.owner.write_file("a", b"a", holder="owner")
        await pair.owner.write_file("b", b"b", holder="owner")
        with pytest.raises(AlreadyExists):
            await pair.owner.rename("a", "b")
        await pair.owner.rename("a", "c")
        assert await pair.successor.read_file("c", length_bytes_max=10) == b"a"
        assert await pair.successor.read_file("b", length_bytes_max=10) == b"b"

    async def test_a_second_rename_finds_nothing(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.successor.rename(path, sealed(path))
        with pytest.raises(FileMissing):
            await pair.successor.rename(path, sealed(path))

    async def test_file_ids_survive_a_rename_and_are_not_used_again(self, pair: Pair) -> None:
        seen: set[int] = set()
        for _ in range(5):
            writer = await create(pair.owner, "file")
            await writer.close()
            await pair.owner.rename("file", "moved")
            status = await pair.successor.status("moved")
            assert status is not None and status.file_id == writer.file_id
            seen.add(writer.file_id)
            await pair.owner.delete("moved")
        assert len(seen) == 5

    async def test_a_directorys_id_survives_a_rename_and_is_not_used_again(self, pair: Pair) -> None:
        """Rule 20: by its id an owner knows its directory from another one that was made under the same name since."""
        path = await claimed(pair.owner)
        seen: list[int] = []
        for number in range(5):
            status = await pair.owner.status(path)
            assert status is not None and status.is_directory
            seen.append(status.file_id)
            await pair.owner.make_directory(path)  # there already, so nothing happens
            await pair.owner.make_directories(path)
            assert await pair.successor.status(path) == status
            assert status in await pair.successor.list_directory(PARTITION)
            await pair.owner.write_file(f"{path}/owner", b"", holder="owner")
            await pair.successor.rename(path, f"{sealed(path)}{number}")
            moved = await pair.owner.status(f"{sealed(path)}{number}")
            assert moved is not None and moved.file_id == status.file_id
            if number % 2:
                await pair.successor.delete(f"{sealed(path)}{number}", recursive=True)
            await pair.owner.make_directory(path)
        assert 0 not in seen and len(set(seen)) == 5

    # --- whole files

    async def test_a_whole_file_is_closed_and_not_overwritten(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/manifest.00000000", bytearray(b"first"), holder="owner")
        with pytest.raises(AlreadyExists):
            await pair.owner.write_file(f"{path}/manifest.00000000", b"second", holder="owner")
        assert await pair.successor.read_file(f"{path}/manifest.00000000", length_bytes_max=5) == b"first"
        with pytest.raises(CorruptFile):
            await pair.successor.read_file(f"{path}/manifest.00000000", length_bytes_max=4)
        status = await pair.successor.status(f"{path}/manifest.00000000")
        assert status is not None
        assert (status.is_open, status.length_bytes) == (False, 5)
        assert status.modified_ms == -1 or abs(status.modified_ms / 1000 - time.time()) < 3600

    async def test_a_file_that_is_still_open_is_not_a_whole_one(self, pair: Pair) -> None:
        writer = await create(pair.owner, "segment")
        await writer.append([b"abc"])
        with pytest.raises(CorruptFile):
            await pair.successor.read_file("segment", length_bytes_max=10)
        await writer.close()
        assert await pair.successor.read_file("segment", length_bytes_max=10) == b"abc"

    # --- appends

    @pytest.mark.parametrize("durability", list(Durability))
    async def test_appends_resolve_in_order_with_the_length_after_them(
        self, pair: Pair, durability: Durability
    ) -> None:
        path = f"{await claimed(pair.owner)}/00000000.log"
        writer = await create(pair.owner, path, durability=durability)
        pieces = [bytes([n]) * (n * 37 % 500) for n in range(200)]
        large = bytes(range(256)) * 3000
        answers = [writer.append([memoryview(piece), b"|"]) for piece in pieces]
        answers.append(writer.append([large[:100], large[100:]]))
        answers.append(writer.append([b"end"]))
        resolved: list[int] = []
        for index, answer in enumerate(answers):
            answer.add_done_callback(lambda _, index=index: resolved.append(index))  # type: ignore[misc]
        lengths = [await answer for answer in answers]
        await asyncio.sleep(0)
        expected = b"".join(piece + b"|" for piece in pieces) + large + b"end"
        assert resolved == sorted(resolved)
        assert lengths[-1] == len(expected) == writer.accepted_bytes
        assert lengths[0] == 1 and lengths == sorted(lengths)
        assert await read_all(pair.successor, path, len(expected)) == expected
        assert await writer.close() == len(expected)
        assert await read_all(pair.successor, path, len(expected)) == expected

    async def test_many_buffers_in_one_append(self, pair: Pair) -> None:
        writer = await create(pair.owner, "many")
        buffers = [bytes([n % 251]) for n in range(5000)]
        assert await writer.append(buffers) == 5000
        assert await writer.append([]) == 5000
        assert await read_all(pair.successor, "many", 5000) == b"".join(buffers)
        assert await writer.close() == 5000

    async def test_closing_waits_for_what_is_in_flight(self, pair: Pair) -> None:
        writer = await create(pair.owner, "file", durability=Durability.HSYNC)
        answers = [writer.append([b"x" * 300_000]) for _ in range(5)]
        assert await writer.close() == 1_500_000
        assert [answer.result() for answer in answers] == [300_000 * n for n in range(1, 6)]
        status = await pair.successor.status("file")
        assert status is not None and (status.is_open, status.length_bytes) == (False, 1_500_000)

    async def test_nothing_can_be_appended_to_a_closed_file(self, pair: Pair) -> None:
        writer = await create(pair.owner, "file")
        await writer.append([b"abc"])
        assert not writer.is_broken
        await writer.close()
        assert writer.is_broken
        with pytest.raises(StoreError):
            await writer.append([b"more"])
        with contextlib.suppress(StoreError):
            assert await writer.close() == 3
        assert await pair.owner.take_over("file", previous_holder="owner") == 3

    async def test_a_segment_is_created_once_and_without_its_parents(self, pair: Pair) -> None:
        with pytest.raises(FileMissing):
            await create(pair.owner, "nowhere/file")
        writer = await create(pair.owner, "file")
        with pytest.raises(AlreadyExists):
            await create(pair.owner, "file")
        with pytest.raises(FileMissing):
            await create(pair.owner, "file/below")
        assert await writer.append([b"still works"]) == 11
        await writer.close()

    async def test_mending_keeps_at_least_what_was_acknowledged(self, pair: Pair) -> None:
        path = f"{await claimed(pair.owner)}/00000000.log"
        writer = await create(pair.owner, path)
        await writer.append([b"acknowledged"])
        assert not writer.is_broken
        length_bytes = await writer.mend()
        assert writer.is_broken
        assert length_bytes >= 12
        assert await writer.mend() == length_bytes
        status = await pair.successor.status(path)
        assert status is not None and (status.is_open, status.length_bytes) == (False, length_bytes)
        assert (await read_all(pair.successor, path, length_bytes))[:12] == b"acknowledged"
        with pytest.raises(StoreError):
            await writer.append([b"more"])

    # --- replicas

    async def test_a_file_lies_on_the_nodes_it_was_opened_on(self, pair: Pair) -> None:
        path = f"{await claimed(pair.owner)}/00000000.log"
        writer = await create(pair.owner, path)
        assert pair.owner.replicas_wanted == pair.successor.replicas_wanted >= 1
        assert 1 <= writer.replicas <= pair.owner.replicas_wanted
        await writer.append([b"abc"])
        await _check_nodes(pair, path, writer.replicas)
        await writer.close()
        await _check_nodes(pair, path, writer.replicas)
        mended = await create(pair.owner, f"{path}.mended")
        await mended.append([b"abc"])
        await mended.mend()
        assert 1 <= mended.replicas <= pair.owner.replicas_wanted
        await _check_nodes(pair, f"{path}.mended", mended.replicas)

    async def test_what_is_not_there_lies_nowhere(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/owner", b"", holder="owner")
        assert await pair.successor.locate(f"{path}/owner") == ()
        for missing in (f"{path}/nothing", "nowhere/at/all", path):
            with pytest.raises(FileMissing):
                await pair.successor.locate(missing)

    # --- reads

    async def test_reads_give_exactly_what_was_asked_for(self, pair: Pair) -> None:
        content = bytes(range(256)) * 8000
        writer = await create(pair.owner, "file")
        await writer.append([content])
        for state in ("open", "closed"):
            for position, length_bytes in [(0, 1), (1000, 70_000), (len(content) - 1, 1), (0, len(content)), (5, 0)]:
                got = await pair.successor.read(
                    "file", file_id=writer.file_id, position=position, length_bytes=length_bytes
                )
                assert bytes(got) == content[position : position + length_bytes], state
            with pytest.raises(CorruptFile):
                await pair.successor.read("file", file_id=writer.file_id, position=len(content) - 1, length_bytes=2)
            if state == "open":
                await writer.close()

    async def test_a_read_of_another_file_under_the_same_name_is_refused(self, pair: Pair) -> None:
        writer = await create(pair.owner, "file")
        await writer.append([b"old"])
        await writer.close()
        await pair.owner.delete("file")
        await pair.owner.write_file("file", b"new", holder="owner")
        with pytest.raises(FileMissing):
            await pair.successor.read("file", file_id=writer.file_id, position=0, length_bytes=3)
        await pair.owner.delete("file")
        with pytest.raises(FileMissing):
            await pair.successor.read("file", file_id=writer.file_id, position=0, length_bytes=3)

    async def test_an_old_path_is_missing_after_a_rename_and_the_new_one_reads(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        writer = await create(pair.owner, f"{path}/00000000.log")
        await writer.append([b"abc"])
        await pair.successor.rename(path, sealed(path))
        with pytest.raises(FileMissing):
            await pair.successor.read(f"{path}/00000000.log", file_id=writer.file_id, position=0, length_bytes=3)
        got = await pair.successor.read(
            f"{sealed(path)}/00000000.log", file_id=writer.file_id, position=0, length_bytes=3
        )
        assert bytes(got) == b"abc"
        writer.abandon()

    # --- fencing

    async def test_after_the_rename_the_old_owner_creates_nothing(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/owner", b"owner", holder="owner")
        await pair.successor.rename(path, sealed(path))
        with pytest.raises(FileMissing):
            await create(pair.owner, f"{path}/00000001.log")
        with pytest.raises(FileMissing):
            await pair.owner.write_file(f"{path}/manifest.00000001", b"", holder="owner")
        assert [s.name for s in await pair.successor.list_directory(PARTITION)] == [sealed(path)[-8:]]

    async def test_a_rename_does_not_stop_a_writer_but_a_takeover_does(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        await pair.owner.write_file(f"{path}/owner", b"owner", holder="owner")
        writer = await create(pair.owner, f"{path}/00000000.log")
        await writer.append([b"before"])
        await pair.successor.rename(path, sealed(path))
        assert await writer.append([b"between"]) == 13
        assert await pair.successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 13
        await assert_stopped(writer)
        with pytest.raises((FencedWriter, WriterBroken)):
            await writer.prove_ownership()
        with pytest.raises((FencedWriter, WriterBroken)):
            await writer.close()
        await assert_stopped(writer)
        assert await pair.successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 13
        assert await read_all(pair.successor, f"{sealed(path)}/00000000.log", 13) == b"beforebetween"

    @pytest.mark.parametrize("previous_holder", ["owner", None])
    async def test_a_takeover_counts_all_that_was_acknowledged(self, pair: Pair, previous_holder: str | None) -> None:
        path = f"{await claimed(pair.owner)}/00000000.log"
        writer = await create(pair.owner, path)
        answers = [writer.append([bytes([n % 256]) * 5_000]) for n in range(100)]
        taking = asyncio.ensure_future(pair.successor.take_over(path, previous_holder=previous_holder))
        results = await asyncio.gather(*answers, return_exceptions=True)
        length_bytes = await taking
        acknowledged = [result for result in results if isinstance(result, int)]
        assert all(isinstance(result, int | FencedWriter | WriterBroken) for result in results)
        assert max(acknowledged, default=0) <= length_bytes <= 500_000
        content = await read_all(pair.successor, path, length_bytes)
        assert content == b"".join(bytes([n % 256]) * 5_000 for n in range(100))[:length_bytes]
        await assert_stopped(writer, is_renamed=False)
        assert await pair.successor.take_over(path, previous_holder=previous_holder) == length_bytes

    async def test_an_empty_pre_opened_file_is_taken_over_too(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        writer = await create(pair.owner, f"{path}/00000001.log")
        await pair.successor.rename(path, sealed(path))
        assert await pair.successor.take_over(f"{sealed(path)}/00000001.log", previous_holder="owner") == 0
        await assert_stopped(writer)
        status = await pair.successor.status(f"{sealed(path)}/00000001.log")
        assert status is not None and (status.is_open, status.length_bytes) == (False, 0)

    async def test_an_owner_whose_directory_is_gone_does_not_mend(self, pair: Pair) -> None:
        path = await claimed(pair.owner)
        writer = await create(pair.owner, f"{path}/00000000.log")
        await writer.append([b"abc"])
        await pair.successor.rename(path, sealed(path))
        with pytest.raises(FencedWriter):
            await writer.mend()
        assert await pair.successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 3

    async def test_the_owner_proves_that_it_is_one(self, pair: Pair) -> None:
        path = f"{await claimed(pair.owner)}/00000000.log"
        writer = await create(pair.owner, path)
        await writer.prove_ownership()
        await writer.append([b"abc"])
        await writer.prove_ownership()
        await writer.close()

    async def test_an_abandoned_file_stays_open_for_the_next_owner(self, pair: Pair) -> None:
        path = f"{await claimed(pair.owner)}/00000000.log"
        writer = await create(pair.owner, path)
        await writer.append([b"abc"])
        writer.abandon()
        with pytest.raises(StoreError):
            await writer.append([b"late"])
        status = await pair.successor.status(path)
        assert status is not None and status.is_open
        assert await pair.successor.take_over(path, previous_holder="owner") == 3

    async def test_two_owners_claim_and_only_one_goes_on(self, pair: Pair) -> None:
        """Rule 1 as both sides play it: whoever's directory was renamed away cannot make its first file."""
        low, high = f"{PARTITION}/00000005.open", f"{PARTITION}/00000006.open"
        await pair.owner.make_directories(PARTITION)
        await asyncio.gather(pair.owner.make_directory(low), pair.successor.make_directory(high))
        await pair.owner.write_file(f"{low}/owner", b"a", holder="a")
        await pair.successor.write_file(f"{high}/owner", b"b", holder="b")
        names = [status.name for status in await pair.successor.list_directory(PARTITION)]
        assert names == ["00000005.open", "00000006.open"]
        await pair.successor.rename(low, sealed(low))
        with pytest.raises(FileMissing):
            await create(pair.owner, f"{low}/00000000.log")
        writer = await create(pair.successor, f"{high}/00000000.log", holder="b")
        assert await writer.append([b"mine"]) == 4
        await writer.close()
