"""kcat: what it can of the plan. Its topics are made by their first use, and its records have no times of their own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.conformance.clients.programs import plan
from tests.conformance.clients.programs.plan import Given

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Scenario:
    def __init__(self, given: Given) -> None:
        self.given = given

    def run(self) -> dict[str, Any]:
        return {"produce": self.produce(), "consume": self.consume(), "offsets": self.offsets()}

    def produce(self) -> Any:
        """It tells no offsets: what was read is compared."""
        for number, codec in enumerate(CODECS):
            self.send(f"{codec} {number}\n" * plan.RECORDS_PER_CODEC, "-z", codec, "-H", f"number={number}")
        told = self.kcat("-C", "-t", self.given.topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
        return told.splitlines()

    def consume(self) -> Any:
        told = self.read(len(CODECS) * plan.RECORDS_PER_CODEC)
        self.send("late\n")
        return {"read": told, "next": self.read(1)}

    def read(self, count: int) -> list[str]:
        reset = ("-X", "auto.offset.reset=earliest")
        told = self.kcat("-G", self.given.group, *reset, "-c", str(count), "-q", "-f", "%p %o %s\n", self.given.topic)
        return told.splitlines()

    def offsets(self) -> Any:
        asked = {"earliest": -2, "latest": -1, "at": 0, "behind": 4_102_444_800_000}
        return {
            name: self.kcat("-Q", "-t", f"{self.given.topic}:0:{timestamp}").strip()
            for name, timestamp in asked.items()
        }

    def send(self, lines: str, *arguments: str) -> None:
        idempotent = ("-X", "enable.idempotence=true")
        self.kcat("-P", "-t", self.given.topic, "-p", "0", "-k", "key", *idempotent, *arguments, stdin=lines)

    def kcat(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-b", self.given.bootstrap, *arguments],
            input=stdin,
            stdout=subprocess.PIPE,
            text=True,
            timeout=plan.WAIT_S,
            check=True,
        )
        return done.stdout


if __name__ == "__main__":
    plan.tell(Scenario(plan.given(sys.argv)).run())
