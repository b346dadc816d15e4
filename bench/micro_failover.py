"""Many partitions in use, kill -9 of one node of three: how long each partition goes without an acknowledgement.

    python -m bench.micro_failover [--server bmq|kafka] [--partitions N] [--rate N] [--rounds N]

One idempotent librdkafka producer sends RATE records a second, evenly over the partitions. Each round kills the node that owns
most of them, measures, starts it again and waits until its part is back. Printed for each round: the longest gaps of
partitions whose owner lives and of all of them, and the processor time of client and servers until the last partition was
back, and the gaps of the living in the CALM_S seconds before the kill; at the end the least, the median and the greatest of
each gap. A round ends after ROUND_S seconds, whatever is back.

With RATE / N records a second of each partition, a gap of N / RATE seconds is none.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench.cluster.faults import make_topic
from bench.cluster.gaps import partition_gaps
from bench.cluster.sides import Side, most_loaded
from bench.cluster.steady import LoadStuck, SteadyLoad
from bench.measure import cpu_seconds
from bench.micro_cluster import options, staged
from bench.time_limit import time_limit

TOPIC: Final = "many"
PARTITIONS: Final = 1_000
RATE: Final = 2_000.0
ROUNDS: Final = 2
CALM_S: Final = 5.0
BACK_WAIT_S: Final = 60.0
BEFORE_S: Final = CALM_S + 3.0
"""Acknowledgements so long before the kill are looked at: the last one of each partition before the calm is among them."""
SETTLED_S: Final = 1.0
SETTLE_WAIT_S: Final = 30.0
ROUND_S: Final = 240.0
FILL_WAIT_S: Final = 240.0
CLIENT: Final[Mapping[str, object]] = {
    "linger.ms": 5,
    "topic.metadata.refresh.interval.ms": 5_000,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.messages": 500_000,
}
SHARES: Final = (("p50", 0.5), ("p90", 0.9), ("longest", 1.0))

Gaps = dict[str, float]
"""Seconds by `living p50`, `all longest`, …"""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--timeline", action="store_true", help="acknowledgements in each quarter of a second")
    chosen = parser.parse_args()
    with staged("failover") as stage, stage.combined(chosen.server) as side:
        make_topic(side, chosen.partitions, topic=TOPIC)
        load = SteadyLoad(side.bootstrap, TOPIC, chosen.partitions, chosen.rate, **CLIENT)  # type: ignore[arg-type]
        with load:
            took_s = load.wait_until_flowing(timeout_s=FILL_WAIT_S)
            print(f"{side.name}: {chosen.partitions} partitions in use after {took_s:.1f} s", flush=True)
            found = []
            for number in range(chosen.rounds):
                with time_limit(ROUND_S, f"round {number + 1}"):
                    found.append(_round(side, load, number + 1, is_timed=chosen.timeline))
            load.finish()
        print(f"{side.name}: {len(load.failed)} records refused; {load.failed[:3]}")
        for name, (least, median, greatest) in summary(found).items():
            print(f"{side.name}, gap of {name}: least {least:.2f}, median {median:.2f}, greatest {greatest:.2f} s")


def _round(side: Side, load: SteadyLoad, number: int, *, is_timed: bool) -> Gaps:
    side.wait_whole()
    load.wait_until_flowing()
    _settle(load)
    time.sleep(CALM_S)
    owners = side.owners(TOPIC)
    victim, count = most_loaded(owners, side.broker_ids)
    processes = {name: pid for name, pid in side.processes.items() if pid != side.nodes[victim].process.pid}
    processes["client"] = os.getpid()
    before = {name: cpu_seconds(pid) for name, pid in processes.items()}
    began = time.monotonic()
    side.nodes[victim].kill()
    try:
        load.wait_until_flowing(began, BACK_WAIT_S)
    except LoadStuck as error:
        print(error, flush=True)
    back_s = time.monotonic() - began
    used = {name: round(cpu_seconds(pid) - before[name], 1) for name, pid in processes.items()}
    _settle(load)
    times = load.seen.times(began - BEFORE_S)
    gaps = gaps_of(times, owners, victim, began, time.monotonic())
    calm = gaps_of(times, owners, victim, began - CALM_S, began)
    gaps |= {f"before, {name}": gap for name, gap in calm.items() if name.startswith("living")}
    print(
        f"{side.name} {number}: node {victim} of {count} partitions killed, all back after {back_s:.1f} s;"
        f" {', '.join(f'{name} {gap:.2f}' for name, gap in gaps.items())} s;"
        f" CPU s {used}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    if is_timed:
        for is_living in (True, False):
            chosen = [times[partition] for partition, owner in owners.items() if (owner != victim) == is_living]
            print(f"  {'living' if is_living else 'dead'}: {timeline(chosen, began, back_s)}")
    side.nodes[victim].start()
    return gaps


def timeline(acknowledged_at: Sequence[Sequence[float]], began: float, seconds: float) -> list[int]:
    """Acknowledgements in each quarter of a second."""
    counts = [0] * (int(4 * seconds) + 1)
    for times in acknowledged_at:
        for at in times:
            if 0 <= at - began < seconds:
                counts[int(4 * (at - began))] += 1
    return counts


def _settle(load: SteadyLoad) -> None:
    """Return once no record waits long; a machine too slow for the rate is said to be so, and measured all the same."""
    try:
        load.wait_until_caught_up(SETTLED_S, SETTLE_WAIT_S)
    except LoadStuck as error:
        print(f"the machine is too slow for {load.rate:g} records a second: {error}", flush=True)


def gaps_of(
    acknowledged_at: Mapping[int, Sequence[float]], owners: Mapping[int, int], victim: int, begin: float, end: float
) -> Gaps:
    """Shares of the partitions' longest gaps: of those whose owner lives, of those of the victim, and of all."""
    gaps = partition_gaps(acknowledged_at, begin, end)
    groups = {
        "living": sorted(gap for partition, gap in gaps.items() if owners[partition] != victim),
        "dead": sorted(gap for partition, gap in gaps.items() if owners[partition] == victim),
        "all": sorted(gaps.values()),
    }
    return {
        f"{group} {name}": ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        for group, ordered in groups.items()
        if ordered
        for name, share in SHARES
    }


def summary(rounds: Sequence[Gaps]) -> dict[str, tuple[float, float, float]]:
    """Least, median and greatest of each gap over the rounds."""
    by_name = {name: [gaps[name] for gaps in rounds if name in gaps] for name in rounds[0]} if rounds else {}
    return {name: (min(values), statistics.median(values), max(values)) for name, values in by_name.items()}


if __name__ == "__main__":
    main()
