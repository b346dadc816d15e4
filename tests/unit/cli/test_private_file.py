"""A new file for its owner alone: whole, or not there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from bmq.cli.private_file import private_file

pytestmark = pytest.mark.unit


class Refused(Exception):
    pass


def test_the_file_is_whole_and_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with private_file(path, Refused) as file:
        file.write(b"token")
    assert path.read_bytes() == b"token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"mine")
    with pytest.raises(Refused, match=f"^cannot write {path}: File exists$"), private_file(path, Refused):
        pytest.fail("the body ran")
    assert path.read_bytes() == b"mine"


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match=f"^cannot write {path}: No space left on device$"):  # noqa: SIM117
        with private_file(path, Refused) as file:
            file.write(b"token")
    assert not path.exists()


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_body_that_fails_leaves_no_file(failure: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(type(failure)), private_file(path, Refused):
        raise failure
    assert not path.exists()
