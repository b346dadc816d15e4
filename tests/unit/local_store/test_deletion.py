"""A directory goes with all that is in it, a step at a time, whoever else is at it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bmq.local_store import deletion
from bmq.local_store.deletion import BUSY_SHARE, REST_MAX_S, TreeDeletion, rest_s
from bmq.local_store.store import PASSES_MAX, THREADS_MAX, LocalStore
from bmq.log.store import StoreError
from testing.hdfs import until

pytestmark = pytest.mark.unit


def fill(directory: Path, files: int) -> None:
    directory.mkdir(parents=True)
    for number in range(files):
        (directory / f"{number}.log").write_bytes(b"x")


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def empty(directory: Path) -> None:
    tree = TreeDeletion(directory)
    while tree.step() is not None:
        pass


def test_all_that_is_in_a_directory_goes_and_nothing_beside_it(tmp_path: Path) -> None:
    for directory in ("topic/0/3.open", "topic/0/2", "topic/1", "other"):
        fill(tmp_path / directory, 2)
    empty(tmp_path / "topic")
    assert names_in(tmp_path / "topic") == [] and len(names_in(tmp_path / "other")) == 2


@pytest.mark.parametrize(
    ("name", "error"), [("none", FileNotFoundError), ("file", NotADirectoryError), ("link", OSError)]
)
def test_what_is_no_directory_is_an_error(tmp_path: Path, name: str, error: type[OSError]) -> None:
    fill(tmp_path / "other", 1)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(error):
        TreeDeletion(tmp_path / name).step()
    assert names_in(tmp_path / "other") == ["0.log"]


def test_links_go_and_what_they_point_to_stays(tmp_path: Path) -> None:
    fill(tmp_path / "other", 1)
    fill(tmp_path / "topic", 1)
    (tmp_path / "topic" / "link").symlink_to(tmp_path / "other")
    empty(tmp_path / "topic")
    assert names_in(tmp_path / "topic") == [] and names_in(tmp_path / "other") == ["0.log"]


def test_what_somebody_else_removes_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "STEP_S", 0.0)  # one entry a step
    for directory in ("a", "b", "c"):
        fill(tmp_path / "topic" / directory, 3)
    tree = TreeDeletion(tmp_path / "topic")
    assert tree.step() is not None
    empty(tmp_path / "topic")
    while tree.step() is not None:
        pass
    assert names_in(tmp_path / "topic") == []


def test_what_somebody_else_writes_meanwhile_is_left_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "STEP_S", 0.0)
    fill(tmp_path / "topic" / "0", 3)
    tree = TreeDeletion(tmp_path / "topic")
    assert tree.step() is not None
    (tmp_path / "topic" / "0" / "late").write_bytes(b"x")
    while tree.step() is not None:
        pass
    assert names_in(tmp_path / "topic" / "0") == ["late"]
    empty(tmp_path / "topic")
    assert names_in(tmp_path / "topic") == []


class Written(TreeDeletion):
    """Somebody writes a file whenever all that was there is gone, so many times."""

    late = 0

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def step(self) -> float | None:
        took_s = super().step()
        if took_s is None and Written.late > 0:
            Written.late -= 1
            fill(self.path / f"late-{Written.late}", 1)
        return took_s


@pytest.mark.parametrize(("late", "is_deleted"), [(PASSES_MAX - 1, True), (PASSES_MAX, False)])
async def test_a_directory_in_which_somebody_still_writes_goes_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int, is_deleted: bool
) -> None:
    monkeypatch.setattr("bmq.local_store.store.TreeDeletion", Written)
    monkeypatch.setattr(Written, "late", late)
    store = LocalStore(tmp_path)
    fill(tmp_path / "topic", 3)
    if is_deleted:
        assert await store.delete("topic", recursive=True)
    else:
        with pytest.raises(StoreError, match="not empty"):
            await store.delete("topic", recursive=True)
    assert (tmp_path / "topic").exists() is not is_deleted
    await store.close()


def test_the_rest_is_in_proportion_and_bounded() -> None:
    assert rest_s(0.001) == pytest.approx(0.001 * (1 / BUSY_SHARE - 1))
    assert rest_s(0.0) == 0.0 and rest_s(5.0) == REST_MAX_S


@pytest.fixture
def slow_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of some files takes minutes."""
    monkeypatch.setattr(deletion, "STEP_S", 0.0)
    monkeypatch.setattr(deletion, "BUSY_SHARE", 1e-9)
    monkeypatch.setattr(deletion, "REST_MAX_S", 60.0)


@pytest.mark.usefixtures("slow_rests")
async def test_deletions_that_rest_hold_neither_other_work_nor_the_end_up(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    topics = [f"topic-{number}" for number in range(2 * THREADS_MAX)]
    for topic in topics:
        fill(tmp_path / topic, 3)

    async def have_begun() -> bool:
        return all(len(names_in(tmp_path / topic)) < 3 for topic in topics)

    async with asyncio.timeout(30.0):  # a single rest takes longer
        deleting = [asyncio.create_task(store.delete(topic, recursive=True)) for topic in topics]
        await until(have_begun, 20.0, "of each topic a file is gone")
        await store.make_directory("new")
        assert await store.status("new") is not None
        for task in deleting:
            task.cancel()
        await asyncio.gather(*deleting, return_exceptions=True)
        await store.close()


async def test_a_store_that_is_closed_ends_a_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "STEP_S", 0.0)
    monkeypatch.setattr(deletion, "BUSY_SHARE", 1e-9)
    store = LocalStore(tmp_path)
    fill(tmp_path / "topic", 3)

    async def has_begun() -> bool:
        return len(names_in(tmp_path / "topic")) < 3

    deleting = asyncio.create_task(store.delete("topic", recursive=True))
    await until(has_begun, 10.0, "a file is gone")
    await store.close()
    with pytest.raises(StoreError, match="closed before it was deleted"):
        await deleting
