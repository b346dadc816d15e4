"""Only what is in the file as it is in memory may be given back."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.cli.memory_release import release, unwritten

pytestmark = pytest.mark.unit

MAPS = """\
1000-3000 r-xp 00000000 08:01 11 /lib/libcompiler.so
Size:                  8 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
3000-4000 r--p 00003000 08:01 11 /lib/libcompiler.so
Anonymous:             4 kB
4000-5000 rw-p 00004000 08:01 11 /lib/libcompiler.so
Anonymous:             0 kB
5000-6000 r-xp 00000000 08:01 12 /libcompiler/other.so
Anonymous:             0 kB
6000-7000 rw-p 00000000 00:00 0
Anonymous:             0 kB
"""


def test_what_was_written_or_may_be_is_kept() -> None:
    assert list(unwritten(MAPS.splitlines(), "libcompiler")) == [(0x1000, 0x3000)]


def test_without_a_list_of_mappings_nothing_is_given_back(tmp_path: Path) -> None:
    assert release("libcompiler", tmp_path / "none") == 0


def test_code_that_was_given_back_still_runs() -> None:
    assert release("libc.so") > 0
    assert sorted([2, 1]) == [1, 2]
