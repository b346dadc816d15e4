"""Run seeds: `python -m tests.simulation --seed 17` replays one, `--seeds 1000 [--first N]` searches.

Each seed runs in a process of its own, so that nothing of a killed server outlives its history.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable
from functools import partial

import structlog

from bmq.cluster import handlers as node_handlers
from bmq.protocol.apis import APIS, INTERNAL_APIS
from bmq.protocol.codec import message_format
from bmq.protocol.formats import codec_of
from bmq.proxy import handlers as proxy_handlers
from tests.simulation.outcome import Outcome
from tests.simulation.seeds import HISTORIES, run_seed

# Floors on the sum over all seeds, per seed: a run in which little happened proves little.
FLOORS = {
    "kills": 4,
    "pauses": 8,
    "takeovers": 25,
    "hand_overs": 2,
    "power_losses": 0.2,
    "losses_accepted": 0.02,
    "node_losses": 5,
    "shortages": 8,
    "resets": 0.3,
    "elections": 1,
    "controller_losses": 0.25,
    "cuts": 0.5,
    "zookeeper_outages": 0.05,
    "moves": 6,
    "remote_tails": 20,
    "deletions": 0.1,
    "topics_made": 0.3,
    "acknowledged_batches": 130,
    "commits": 20,
    "answers": 80,
}
FLOORS_FROM_SEEDS = 20  # fewer may be quiet by chance


def warm_up() -> None:
    """What each seed's process would import and compile first, once for all of them."""
    proxy_handlers.load_all()
    node_handlers.load_all()
    for api_key in {*APIS, *INTERNAL_APIS}:
        for kind in ("request", "response"):
            messages = message_format(kind, api_key)
            codec_of(messages, messages.version_max)


def run_seeds(seeds: Iterable[int], processes: int, names: tuple[str, ...]) -> Iterable[Outcome]:
    warm_up()
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(partial(run_seed, names=names), seeds)


def quiet_floor(outcomes: list[Outcome]) -> str | None:
    """A sentence if too little happened in all these histories together."""
    count = len(outcomes)
    for name, floor in FLOORS.items():
        total = sum(getattr(outcome, name) for outcome in outcomes)
        if count >= FLOORS_FROM_SEEDS and total < floor * count:
            return f"only {total} {name} in {count} seeds; at least {floor * count:.0f} are wanted"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="replay one, with the server's log on standard error")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--stop-at-first", action="store_true", help="end with the first violation")
    parser.add_argument(
        "--history",
        choices=sorted(HISTORIES),
        action="append",
        help="only this kind; default: all, the cluster with even seeds",
    )
    arguments = parser.parse_args()
    names = tuple(arguments.history or ())
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings is part of a history.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    if arguments.seed is not None:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
        outcome = run_seed(arguments.seed, names)
        print(outcome.line())
        return 1 if outcome.violation else 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    outcomes = []
    started = time.monotonic()
    for outcome in run_seeds(range(arguments.first, arguments.first + arguments.seeds), arguments.processes, names):
        outcomes.append(outcome)
        print(outcome.line(), flush=True)
        if outcome.violation:
            only = "".join(f" --history {name}" for name in arguments.history or ())
            print(f"  replay it with: python -m tests.simulation --seed {outcome.seed}{only}", flush=True)
            if arguments.stop_at_first:
                break
    failed = sorted(outcome.seed for outcome in outcomes if outcome.violation)
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed", flush=True)
    print(f"({len(outcomes)} seeds in {time.monotonic() - started:.0f} s)", flush=True)
    quiet = None if arguments.history else quiet_floor(outcomes)
    if quiet and not failed:
        print(quiet)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
