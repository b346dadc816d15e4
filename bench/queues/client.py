"""The client in C (members.c): built once, its figures read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from bench.core.client import build, measured
from bench.queues.frames import Fetching, session_frames

SOURCE: Final = Path(__file__).with_name("members.c")


class Members:
    """`directory`: where the program is put. Raises LoadFailed when it cannot be built."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = build(SOURCE, directory / "members")

    def fetch(
        self, port: int, pids: Collection[int], asked: Fetching, *, rate_per_s: float, warm_s: float, seconds: float
    ) -> dict[str, Any]:
        """Share sessions of all members, each with a connection of its own; `server_cpu_s` is what these processes use.

        `rate_per_s`: fetches of all members together that fall due; 0: as many as are answered. Raises LoadFailed.
        """
        return self.fetch_all(port, pids, [asked], rate_per_s=rate_per_s, warm_s=warm_s, seconds=seconds)

    def fetch_all(
        self,
        port: int,
        pids: Collection[int],
        asked: Sequence[Fetching],
        *,
        rate_per_s: float,
        warm_s: float,
        seconds: float,
    ) -> dict[str, Any]:
        """As `fetch`, by members of several groups whose names are of equal lengths. Raises ValueError, LoadFailed."""
        made = [session_frames(one) for one in asked]
        places = {(one.epoch_at, one.first_at, one.last_at) for one in made}
        if len(places) != 1:
            raise ValueError("the fields of all members have to stand at the same places")
        ((epoch_at, first_at, last_at),) = places
        count = sum(len(one.members) for one in asked)
        frames = self._directory / "frames"
        frames.write_bytes(b"".join(one.data for one in made))
        command = [
            *(str(self._program), "--port", str(port), "--frames", str(frames), "--members", str(count)),
            *("--epoch-at", str(epoch_at), "--first-at", str(first_at), "--last-at", str(last_at)),
            *("--rate", str(rate_per_s), "--warm-s", str(warm_s), "--seconds", str(seconds)),
        ]
        return measured(command, pids)
