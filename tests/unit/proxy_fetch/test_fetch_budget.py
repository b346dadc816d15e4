"""What answers hold in memory is counted until they are sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.local_store.file_part import LocalFilePart, OpenFile
from bmq.protocol.parts import Part
from bmq.proxy.fetch_budget import ResponseBudget

pytestmark = pytest.mark.unit


def test_what_lies_in_files_takes_no_room(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000)
    in_file = LocalFilePart(OpenFile(tmp_path / "file"), 0, 1_000, None, None)  # type: ignore[arg-type]
    budget = ResponseBudget(10_000)
    answer: list[Part] = [bytearray(b"head"), memoryview(b"y" * 500), bytearray(b"between"), in_file]
    budget.hold(answer, 1_500)
    assert budget.bytes_used == 500
    answer.pop()
    assert budget.bytes_used == 500
    answer.clear()
    assert budget.bytes_used == 0


def test_an_answer_of_memory_alone_is_counted_until_its_end_is_gone() -> None:
    budget = ResponseBudget(10_000)
    answer: list[Part] = [bytearray(b"head"), memoryview(b"y" * 500)]
    budget.hold(answer, 500)
    del answer[0]
    assert budget.room_bytes == 9_500
    answer.clear()
    assert budget.room_bytes == 10_000
