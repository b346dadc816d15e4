"""Microseconds of a node's processor for a client that stops in the middle of TLS or of SASL, and for the one closed for it.

    python -m bench.micro_strangers [--count N] [--rounds N]

They come one after the other from many addresses, and stay until the node closes them; its places are taken before.
What the node takes without them is subtracted. Each round has a new node.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from bench.criteria import BMQ
from bench.measure import cpu_seconds
from bench.security.sides import MAKERS, SASL, SSL, Certificates, Secured
from bench.security.strangers import Strangers

WARMING: Final = 2_000
RETURNS_PER_S: Final = 0.001
"""None, in the time that a round takes."""
SETTLED_S: Final = 1.0


def cpu_us_each(side: Secured, listener: str, count: int) -> float:
    """Of `count` strangers to this listener, behind WARMING others."""
    pid = side.server.pid
    with (
        Strangers(side.ports, WARMING, RETURNS_PER_S, (listener,)) as warming,
        Strangers(side.ports, count, RETURNS_PER_S, (listener,)) as measured,
    ):
        warming.arrive()
        time.sleep(SETTLED_S)
        before_s, began_s = cpu_seconds(pid), time.monotonic()
        measured.arrive()
        time.sleep(SETTLED_S)
        busy_s, seconds = cpu_seconds(pid) - before_s, time.monotonic() - began_s
        before_s = cpu_seconds(pid)
        time.sleep(seconds)
        return (busy_s - (cpu_seconds(pid) - before_s)) / count * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=5_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    directory = Path(mkdtemp(prefix="bmq-strangers-"))
    try:
        certificates = Certificates(directory / "certificates")
        for number in range(given.rounds):
            side = MAKERS[BMQ](directory / f"{number}", certificates, {})
            side.server.start()
            try:
                found = {listener: cpu_us_each(side, listener, given.count) for listener in (SSL, SASL)}
            finally:
                side.server.close()
            print("  ".join(f"{listener} {one_us:.0f} us" for listener, one_us in found.items()), flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
