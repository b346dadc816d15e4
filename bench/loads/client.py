"""The librdkafka client in C (client.c): built once, its figures read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.core.client import build, measured

SOURCE: Final = Path(__file__).with_name("client.c")
LIBRARIES: Final = ("rdkafka", "pthread")


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a producer asks for beside acks=all. `transaction_ms` 0: no transactions; else each is committed once it is so
    old, every `abort_every`-th aborted instead.
    """

    is_idempotent: bool = False
    transaction_ms: float = 0
    abort_every: int = 0

    @property
    def arguments(self) -> list[str]:
        return [
            *(["--idempotent"] if self.is_idempotent else []),
            *(["--transaction-ms", str(self.transaction_ms)] if self.transaction_ms else []),
            *(["--abort-every", str(self.abort_every)] if self.abort_every else []),
        ]


PLAIN: Final = Guarantees()


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
        guarantees: Guarantees = PLAIN,
        queue_records: int = 0,
        records_max: int = 0,
        properties: Mapping[str, str] | None = None,
        delay_ms: int = 0,
    ) -> dict[str, Any]:
        """Produce to partitions at random; what came of it, and the processor time of servers of these processes.

        `rate_per_s` 0: as fast as librdkafka takes them. `is_consuming`: a consumer beside it reads the topic's end.
        `queue_records`: so many may wait for their acknowledgement, 0: librdkafka's default. `records_max`: it ends after
        so many; 0: with the time. `properties`: of librdkafka. `delay_ms`: each record asks for a delay up to this; 0: none
        has a header. Raises LoadFailed.
        """
        command = [
            *(str(self._program), "--bootstrap", bootstrap, "--topic", topic, "--partitions", str(partitions)),
            *("--record-bytes", str(record_bytes), "--rate", str(rate_per_s)),
            *("--warm-s", str(warm_s), "--seconds", str(seconds)),
            *(["--consume"] if is_consuming else []),
            *(["--queue", str(queue_records)] if queue_records else []),
            *(["--records-max", str(records_max)] if records_max else []),
            *(["--delay-ms", str(delay_ms)] if delay_ms else []),
            *guarantees.arguments,
            *(word for name, value in (properties or {}).items() for word in ("--set", f"{name}={value}")),
        ]
        return measured(command, pids)
