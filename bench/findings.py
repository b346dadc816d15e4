"""What was found while it is being found, so that a part that fails half-way leaves the half."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.logged_errors import said
from bench.time_limit import PartTimedOut

REASON_CHARACTERS_MAX = 2_000


def say(text: str) -> None:
    print(f"[{datetime.now(UTC):%H:%M:%S}] {text}", flush=True)


@dataclass(slots=True)
class Findings:
    """`failures`: what was not found, by part, each with its reasons; under `PART/DETAIL` what takes no more than a detail from
    the part. `measured`: by part, revision, date and machine.

    `superseded`: samples that were measured again, each with what `measured` and `failures` said of it.
    """

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    superseded: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Findings:
        """What an earlier run found."""
        return cls(*(result[name] for name in ("parts", "failures", "measured", "superseded")))

    def supersede(self, parts: Iterable[str]) -> None:
        """Put what is known of these parts aside: they are measured again, as a whole."""
        for part in parts:
            failed = [name for name in self.failures if name == part or name.startswith(f"{part}/")]
            known = {
                "samples": self.parts.pop(part, None),
                "failures": [reason for name in failed for reason in self.failures.pop(name)],
                "measured": self.measured.pop(part, None),
            }
            if any(known.values()):
                self.superseded.append({"part": part, **{name: one for name, one in known.items() if one}})

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

    def pairs(self, part: str, wanted: int) -> list[dict[str, Any]]:
        """Where the pairs of a part are put as they come."""
        pairs: list[dict[str, Any]] = []
        self.parts[part] = {"wanted": wanted, "pairs": pairs}
        return pairs

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
                self.failed(part, f"{side}: {said(error)}")
