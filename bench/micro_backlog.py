"""An old backlog: read after a restart of all servers and without page caches, as in `bench.loads`, round after round.

    python -m bench.micro_backlog [--server bmq|kafka] [--rounds N] [--mib N] [--no-local-reads]

Three nodes on HDFS, or three Kafka brokers; kcat reads the same topic three times in each round, the first time from the
store. `--no-local-reads`: all of it through DataNodes, none from their files.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from bench.cluster.sides import COMBINED, Side
from bench.cluster.stage import Stage
from bench.criteria import BMQ
from bench.loads.loads import FRESH, PARTITIONS, WARM_UP, fresh_backlog, make_topic, old_backlog
from bench.micro_cluster import options, staged

MIB: Final = 1024 * 1024
_WITHOUT_LOCAL_READS: Final = {"BMQ_HDFS__LOCAL_READS": "false"}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--mib", type=int, default=600)
    parser.add_argument("--no-local-reads", action="store_true")
    chosen = parser.parse_args()
    with staged("backlog") as stage, _opened(stage, chosen.server, is_local=not chosen.no_local_reads) as side:
        _measure(side, chosen.mib * MIB, chosen.rounds)


def _opened(stage: Stage, server: str, *, is_local: bool) -> AbstractContextManager[Side]:
    if server == BMQ:
        return stage.bmq(COMBINED, environment={} if is_local else _WITHOUT_LOCAL_READS)
    return stage.combined(server)


def _measure(side: Side, size_bytes: int, rounds: int) -> None:
    for topic in (WARM_UP, FRESH):
        make_topic(side, topic, PARTITIONS)
    fresh_backlog(side, size_bytes)
    for number in range(rounds):
        found = old_backlog(side, size_bytes)
        first, *later = (f"{seconds:.2f}" for seconds in found["seconds"])
        print(
            f"{side.name} {number + 1}: {found['first_mb_per_s']:.0f} MB/s ({first} s, then {', '.join(later)} s),"
            f" CPU of all servers {found['server_cpu_s']:.2f} s for {found['gb']:.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
