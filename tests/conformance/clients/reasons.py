"""Differences between a client's two runs that are meant, each with its reason: the reviewed list."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.conformance.compare import MISSING, Difference
from tests.conformance.intended import ANY


@dataclass(frozen=True, slots=True)
class Reason:
    """`clients`, `paths`: shell patterns. `is_chance`: a run may do without it, as it hangs on how fast things go."""

    name: str
    reason: str
    clients: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ("*",)
    bmq: tuple[object, ...] = (ANY,)
    kafka: tuple[object, ...] = (ANY,)
    is_chance: bool = False

    def meets(self, client: str, difference: Difference) -> bool:
        return (
            any(fnmatchcase(client, pattern) for pattern in self.clients)
            and any(fnmatchcase(difference.path, pattern) for pattern in self.paths)
            and (ANY in self.bmq or difference.bmq in self.bmq)
            and (ANY in self.kafka or difference.kafka in self.kafka)
        )


REASONS: Final[tuple[Reason, ...]] = (
    Reason(
        "Kafka 4.4",
        "bmq speaks versions that Kafka 4.4 has added, and this client knows them; the server beside it is 4.3. Before it knows that, its request for ApiVersions 5 is refused.",
        ("franz-go",),
        ("apis/ApiVersions", "apis/TxnOffsetCommit", "apis/DeleteGroups"),
        bmq=([5], [6], [3]),
        kafka=([4, 5], [5], [2]),
    ),
    Reason(
        "Heartbeats",
        "A member sends one every few seconds: where all is read sooner there is none.",
        paths=("apis/Heartbeat",),
        bmq=(MISSING, *([version] for version in range(5))),
        kafka=(MISSING, *([version] for version in range(5))),
        is_chance=True,
    ),
)
