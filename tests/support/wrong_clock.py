"""Processes with a wrong time of day, by libfaketime: wrong for good, or until it is set again."""

from __future__ import annotations

from pathlib import Path


def clock_off_by(seconds: int) -> dict[str, str]:
    """The environment of a process whose time of day is wrong; its monotonic clock goes on as ever."""
    return {
        "LD_PRELOAD": _library(),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
    }


class SettableClock:
    """The time of day of processes with this `environment`, which is right until it is set."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set_off_by(0)
        self.environment = {
            "LD_PRELOAD": _library(),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
        }

    def set_off_by(self, seconds: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.rename(self.file)  # nobody reads half of it


def _library() -> str:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert found, "no libfaketime: run `make tools` (installs it as root, else says what to install)"
    return str(found[0])
