"""What was found while it is being found, so that a part that fails half-way leaves the half."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.cluster.criteria import BMQ, KAFKA, PAIRS, SEPARATE
from bench.cluster.stage import PartTimedOut

REASON_CHARACTERS_MAX = 2_000


def say(text: str) -> None:
    print(f"[{datetime.now(UTC):%H:%M:%S}] {text}", flush=True)


@dataclass(slots=True)
class Findings:
    """`failures`: what was not found, by part, each with its reasons."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def without(cls, earlier: Mapping[str, Any], parts: Iterable[str], sides: Iterable[str]) -> Findings:
        """What an earlier run found, apart from what is measured again."""
        parts, sides = set(parts), tuple(sides)
        others = tuple(f"{side}:" for side in (BMQ, KAFKA, SEPARATE) if side not in sides)
        found = {
            part: {side: one for side, one in of.items() if part not in parts or side not in sides}
            for part, of in earlier["parts"].items()
        }
        failures = {
            part: [reason for reason in reasons if part not in parts or (part != PAIRS and reason.startswith(others))]
            for part, reasons in earlier["failures"].items()
        }
        pairs = [] if PAIRS in parts else list(earlier["pairs"])
        return cls(found, pairs, {part: reasons for part, reasons in failures.items() if reasons})

    def samples(self, part: str, side: str) -> dict[str, Any]:
        """Where a side's samples of a part are put as they come."""
        found: dict[str, Any] = self.parts.setdefault(part, {}).setdefault(side, {})
        return found

    def rounds(self, part: str, side: str, wanted: int) -> Callable[[dict[str, Any]], None]:
        """To be given each round that was measured."""
        samples = self.samples(part, side)
        samples["wanted"] = wanted
        samples.setdefault("rounds", [])

        def done(found: dict[str, Any]) -> None:
            samples["rounds"].append(found)
            say(f"  {side}: {', '.join(f'{name} {value}' for name, value in found.items())}")

        return done

    def failed(self, part: str, reason: str) -> None:
        self.failures.setdefault(part, []).append(reason[:REASON_CHARACTERS_MAX])
        say(f"FAILED {part}: {reason}")

    @contextmanager
    def attempt(self, parts: Iterable[str], side: str) -> Iterator[None]:
        """What fails in here is noted for these parts, and does not keep the other side from being measured."""
        try:
            yield
        except PartTimedOut:
            raise
        except Exception as error:
            for part in parts:
                self.failed(part, f"{side}: {type(error).__name__}: {error}")
