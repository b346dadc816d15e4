"""Two runs do not have the machine at once, and the second one says for which it waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.processes import REPOSITORY
from tools import machine_lock as module
from tools.machine_lock import PLACE, VARIABLE, MachineTaken, acquire, machine_lock

pytestmark = pytest.mark.unit

HOLDS_UNTIL_A_LINE = "import sys; print('held', flush=True); sys.stdin.readline()"


def holder(place: Path, *command: str) -> subprocess.Popen[str]:
    """A process that took the lock and became `command`, its first line read."""
    program = f"""
import sys
from pathlib import Path
from tools import machine_lock
machine_lock.acquire.__defaults__ = (Path({str(place)!r}), *machine_lock.acquire.__defaults__[1:])
sys.argv = ["machine_lock", "the first run", *{list(command)!r}]
machine_lock.main()
"""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_run_says_for_which_it_waits_and_has_the_machine_when_that_ends(tmp_path: Path) -> None:
    place, said = tmp_path / "lock", list[str]()
    with holder(place, sys.executable, "-c", HOLDS_UNTIL_A_LINE) as first:

        def say(line: str) -> None:
            said.append(line)
            assert first.stdin is not None
            first.stdin.write("\n")
            first.stdin.flush()

        os.close(acquire("the second run", place, 30, say))
    (line,) = said
    assert f"waiting for the first run, process {first.pid}, in {REPOSITORY}, since " in line


def test_a_run_that_waited_too_long_says_who_has_the_machine(tmp_path: Path) -> None:
    with holder(tmp_path / "lock", sys.executable, "-c", HOLDS_UNTIL_A_LINE) as first:
        with pytest.raises(MachineTaken, match=r"the first run, process .* still has the machine after 0 s"):
            acquire("the second run", tmp_path / "lock", 0, lambda line: None)
        first.communicate("\n")


def test_a_killed_run_gives_the_machine_back(tmp_path: Path) -> None:
    with holder(tmp_path / "lock", sys.executable, "-c", HOLDS_UNTIL_A_LINE) as first:
        first.kill()
        first.wait()
        os.close(acquire("the second run", tmp_path / "lock", 0, lambda line: None))


STARTS_ANOTHER = """
import subprocess, sys
other = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
print("held", flush=True)
sys.stdin.readline()
print(other.pid, flush=True)
sys.stdin.readline()
"""


def test_what_a_run_starts_does_not_keep_the_machine(tmp_path: Path) -> None:
    """A daemon that is left behind holds nothing back."""
    with holder(tmp_path / "lock", sys.executable, "-c", STARTS_ANOTHER) as first:
        assert first.stdin is not None and first.stdout is not None
        first.stdin.write("\n")
        first.stdin.flush()
        other = Path(f"/proc/{first.stdout.readline().strip()}/fd")
        held = {(tmp_path / "lock").resolve()}
        assert not held & {descriptor.resolve() for descriptor in other.iterdir()}
        assert held & {descriptor.resolve() for descriptor in Path(f"/proc/{first.pid}/fd").iterdir()}
        first.communicate("\n")


def test_a_run_within_a_run_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with machine_lock("outer", tmp_path / "lock"):
        assert os.environ[VARIABLE] == str(os.getpid())
        with machine_lock("inner", tmp_path / "lock"):
            pass
        assert VARIABLE in os.environ
    assert VARIABLE not in os.environ


def test_the_place_is_the_same_whatever_the_directory_for_temporary_files(tmp_path: Path) -> None:
    program = "from tools.machine_lock import PLACE; print(PLACE)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    found = subprocess.check_output([sys.executable, "-c", program], cwd=REPOSITORY, env=environment, text=True)
    assert found.strip() == str(PLACE) == str(module.PLACE)


def test_a_place_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        acquire("a run", tmp_path / "lock")
    assert not (tmp_path / "precious").exists()
