"""The librdkafka client in C (client.c): built once, its figures read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from bench.core.client import build, measured

SOURCE: Final = Path(__file__).with_name("client.c")
LIBRARIES: Final = ("rdkafka", "pthread")


class Client:
    """`directory`: where the program is put. Raises LoadFailed when it cannot be built."""

    def __init__(self, directory: Path) -> None:
        self._program = build(SOURCE, directory / "client", LIBRARIES)

    def produce(
        self,
        bootstrap: str,
        pids: Collection[int],
        topic: str,
        partitions: int,
        *,
        record_bytes: int,
        warm_s: float,
        seconds: float,
        rate_per_s: float = 0,
        is_consuming: bool = False,
    ) -> dict[str, Any]:
        """Produce to partitions at random; what came of it, and the processor time of servers of these processes.

        `rate_per_s` 0: as fast as librdkafka takes them. `is_consuming`: a consumer beside it reads the topic's end.
        Raises LoadFailed.
        """
        command = [
            *(str(self._program), "--bootstrap", bootstrap, "--topic", topic, "--partitions", str(partitions)),
            *("--record-bytes", str(record_bytes), "--rate", str(rate_per_s)),
            *("--warm-s", str(warm_s), "--seconds", str(seconds)),
            *(["--consume"] if is_consuming else []),
        ]
        return measured(command, pids)
