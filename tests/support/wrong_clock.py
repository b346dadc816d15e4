"""A process with a wrong time of day, by libfaketime."""

from __future__ import annotations

from pathlib import Path


def clock_off_by(seconds: int) -> dict[str, str]:
    """The environment of a process whose time of day is wrong; its monotonic clock goes on as ever."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert found, "no libfaketime: run `make tools` (installs it as root, else says what to install)"
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
    }
