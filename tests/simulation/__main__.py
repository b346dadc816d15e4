"""Run seeds: `python -m tests.simulation --seed 17` replays one, `--seeds 1000 [--first N]` searches.

`--fault NAME=RATE` sets how often one of the rarer faults happens (fault_rates.py), `--faults-at-highest` sets all of them:

    python -m tests.simulation --seeds 2000 --faults-at-highest --history owners --history servers --history cluster

Each seed runs in a process of its own, so that nothing of a killed server outlives its history.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from bmq.internode_server import handlers as node_handlers
from bmq.protocol.apis import APIS, INTERNAL_APIS
from bmq.protocol.codec import message_format
from bmq.protocol.formats import codec_of
from bmq.proxy import handlers as proxy_handlers
from tests.simulation.fault_rates import KINDS, FaultRates
from tests.simulation.outcome import Outcome
from tests.simulation.seeds import HISTORIES, run_seed

# Floors for each kind of history, per seed of it: a run in which little happened proves little.
FLOORS: Mapping[str, Mapping[str, float]] = {
    "owners": {
        "kills": 2,
        "pauses": 6,
        "takeovers": 15,
        "hand_overs": 2,
        "power_losses": 0.4,
        "losses_accepted": 0.02,
        "node_losses": 3,
        "shortages": 8,
        "long_pauses": 0.02,
        "late_calls": 2,
        "damaged_reads": 1.5,
        "rotten_tails": 0.02,
        "committed_files": 0.2,
        "raised_appends": 0.02,
        "full_appends": 0.01,
        "acknowledged_batches": 60,
        "answers": 40,
        "deletions": 0.04,
        "cleanings": 0.2,
        "records_gone": 1,
        "aged_batches": 4,
        "aged_answers": 6,
        "starts_raised": 0.2,
    },
    "servers": {
        "kills": 1.5,
        "pauses": 0.7,
        "takeovers": 5,
        "hand_overs": 0.2,
        "node_losses": 1.2,
        "shortages": 5,
        "resets": 0.7,
        "long_pauses": 0.04,
        "clients_left": 0.7,
        "late_calls": 3,
        "damaged_reads": 1,
        "rotten_tails": 0.02,
        "committed_files": 0.1,
        "raised_appends": 0.05,
        "full_appends": 0.05,
        "plain_batches": 25,
        "acknowledged_batches": 60,
        "commits": 40,
        "answers": 35,
        "aged_batches": 5,
        "aged_answers": 3,
        "deletions": 0.1,
        "topics_made": 0.1,
        "groups_cleaned": 0.3,
        "records_gone": 0.3,
        "starts_raised": 0.1,
        "cleaners_hurt": 0.02,
    },
    "cluster": {
        "kills": 1,
        "pauses": 0.7,
        "hand_overs": 1,
        "node_losses": 0.5,
        "shortages": 0.5,
        "resets": 0.3,
        "elections": 1,
        "controller_losses": 0.4,
        "cuts": 1.5,
        "zookeeper_outages": 0.1,
        "moves": 6,
        "remote_tails": 20,
        "deletions": 0.1,
        "topics_made": 0.4,
        "long_pauses": 0.04,
        "clients_left": 0.5,
        "late_calls": 2,
        "damaged_reads": 1,
        "committed_files": 0.05,
        "raised_appends": 0.02,
        "plain_batches": 10,
        "acknowledged_batches": 30,
        "commits": 20,
        "answers": 60,
        "aged_batches": 5,
        "aged_answers": 3,
        "groups_cleaned": 0.3,
        "records_gone": 0.3,
        "starts_raised": 0.1,
        "cleaners_hurt": 0.02,
    },
    "transactions": {
        "kills": 1,
        "pauses": 0.7,
        "hand_overs": 1,
        "cuts": 1.5,
        "moves": 6,
        "acknowledged_batches": 60,
        "answers": 30,
        "transactions_committed": 15,
        "transactions_aborted": 3,
        "transactions_unknown": 2,
        "committed_by_check": 0.2,
        "transactions_asked": 4,
        "deserted": 1.5,
        "deserted_committed": 1,
        "deserted_asked": 0.1,
        "copies": 8,
        "zombies": 3,
        "producers_refused": 3,
        "rotations": 3,
        "deletions": 0.7,
        "assignments": 0.5,
        "members_lost": 0.05,
        "late_requests": 1,
        "aged_batches": 5,
        "aged_answers": 3,
        "groups_cleaned": 0.1,
        "starts_raised": 0.05,
    },
    "consumers": {
        "kills": 1,
        "pauses": 0.4,
        "hand_overs": 1,
        "cuts": 0.7,
        "moves": 4,
        "topics_made": 0.7,
        "commits": 40,
        "answers": 4,
        "assignments": 6,
        "members_lost": 0.1,  # 0.34 over 2,000 seeds, and they come in heaps
        "migrations": 0.1,
        "aged_batches": 5,
        "aged_answers": 3,
        "groups_cleaned": 0.1,
        "starts_raised": 0.05,
    },
    "compaction": {
        "kills": 1,
        "pauses": 1,
        "hand_overs": 1,
        "moves": 6,
        "deletions": 0.7,
        "topics_made": 0.4,
        "acknowledged_batches": 100,
        "answers": 40,
        "transactions_committed": 40,
        "transactions_aborted": 5,
        "cleanings": 12,
        "cleanings_interrupted": 3,
        "groups_cleaned": 40,
        "markers_dropped": 5,
        "records_gone": 100,
        "tombstones_gone": 10,
        "cleaners_hurt": 0.3,
    },
    "merging": {
        "kills": 1,
        "pauses": 1,
        "hand_overs": 1,
        "moves": 6,
        "deletions": 0.7,
        "acknowledged_batches": 100,
        "answers": 40,
        "transactions_committed": 40,
        "transactions_aborted": 5,
        "cleanings": 5,
        "cleanings_interrupted": 0.2,
        "groups_cleaned": 5,
    },
    "delegated": {
        "kills": 1,
        "moves": 6,
        "delegations": 0.5,
        "delegations_lost": 2,
        "records_gone": 100,
    },
    "share": {
        "kills": 1,
        "pauses": 0.5,
        "hand_overs": 1,
        "cuts": 1.5,
        "moves": 20,
        "deletions": 0.2,
        "acknowledged_batches": 60,
        "transactions_committed": 5,
        "transactions_aborted": 3,
        "late_requests": 1,
        "assignments": 5,
        "states_loaded": 4,
        "deliveries": 100,
        "redeliveries": 20,
        "accepts": 80,
        "refusals": 0.5,
        "locks_run_out": 0.1,
        "waits": 2,
        "dead_letters": 0.7,
        "aged_batches": 4,
        "starts_raised": 0.5,
    },
    "delay": {
        "kills": 1,
        "pauses": 0.7,
        "hand_overs": 1,
        "node_losses": 0.5,
        "cuts": 3,
        "moves": 6,
        "deletions": 0.3,
        "late_calls": 1,
        "acknowledged_batches": 60,
        "timers_delivered": 80,
        "timers_plain": 30,
        "timers_cancelled": 2,
        "timers_too_late": 1.5,
    },
    "lanes": {
        "kills": 1,
        "pauses": 0.5,
        "hand_overs": 1,
        "cuts": 1,
        "moves": 4,
        "acknowledged_batches": 100,
        "lane_stays": 10,
        "lane_records": 60,
        "base_records": 80,
        "lane_copies": 10,
    },
    "half": {
        "kills": 1,
        "pauses": 0.7,
        "hand_overs": 1,
        "node_losses": 0.5,
        "cuts": 3,
        "moves": 6,
        "deletions": 0.3,
        "late_calls": 1,
        "acknowledged_batches": 60,
        "halves_delivered": 15,
        "halves_rolled_back": 8,
        "halves_given_up": 3,
        "halves_checked": 30,
        "halves_refused": 1,
    },
    "views": {
        "kills": 1,
        "pauses": 0.5,
        "hand_overs": 1,
        "cuts": 1,
        "moves": 4,
        "node_losses": 0.3,
        "acknowledged_batches": 70,
        "views_shown": 150,
        "views_left_out": 150,
    },
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


def say_unless_dead(unraisable: sys.UnraisableHookArgs) -> None:
    """As Python does, but for coroutines of killed processes: they end in the middle of a generator's step."""
    error = unraisable.exc_value
    if not (isinstance(error, RuntimeError) and str(error) == "aclose(): asynchronous generator is already running"):
        sys.__unraisablehook__(unraisable)


def run_seeds(seeds: Iterable[int], processes: int, run: Callable[[int], Outcome]) -> Iterable[Outcome]:
    warm_up()
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(run, seeds)


def quiet_floors(outcomes: list[Outcome], fixed: Mapping[str, float]) -> list[str]:
    """A sentence for everything that happened too seldom. What a `fixed` rate bears on is left out."""
    sentences = []
    for history, floors in FLOORS.items():
        seen = [outcome.by_history[history] for outcome in outcomes if history in outcome.by_history]
        if len(seen) < FLOORS_FROM_SEEDS:
            continue
        for name, floor in floors.items():
            total = sum(getattr(outcome, name) for outcome in seen)
            wanted = int(floor * len(seen))
            if total < wanted and not fixed:
                sentences.append(f"{history}: {total} {name} in {len(seen)} seeds; {wanted} are wanted")
    return sentences


def one_rate(text: str) -> tuple[str, float]:
    name, _, rate = text.partition("=")
    if name not in KINDS:
        raise argparse.ArgumentTypeError(f"no fault named {name}; there are {', '.join(KINDS)}")
    try:
        return name, float(rate)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: NAME=RATE is wanted") from None


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
        help="only this kind; default: owners, servers and one kind of cluster",
    )
    parser.add_argument(
        "--fault", type=one_rate, action="append", default=[], metavar="NAME=RATE", help="for all seeds"
    )
    parser.add_argument("--faults-at-highest", action="store_true", help="every rarer fault at its highest rate")
    parser.add_argument("--however-little", action="store_true", help="no error when little happened: unknown seeds")
    parser.add_argument("--outside", action="store_true", help="judge by what clients see alone, as mutants are judged")
    arguments = parser.parse_args()
    names = tuple(arguments.history or ())
    fixed = dict(arguments.fault)
    rates = FaultRates.highest(fixed) if arguments.faults_at_highest else FaultRates(fixed)
    run = partial(run_seed, names=names, rates=rates, is_looking_inside=not arguments.outside)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings is part of a history.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.unraisablehook = say_unless_dead
    if arguments.seed is not None:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
        outcome = run(arguments.seed)
        print(outcome.line())
        return 1 if outcome.violation else 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    outcomes = []
    started = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for outcome in run_seeds(seeds, arguments.processes, run):
        outcomes.append(outcome)
        print(outcome.line(), flush=True)
        if outcome.violation:
            print(
                f"  replay it with: python -m tests.simulation --seed {outcome.seed}{same_kind(arguments)}", flush=True
            )
            if arguments.stop_at_first:
                break
    failed = sorted(outcome.seed for outcome in outcomes if outcome.violation)
    seconds = time.monotonic() - started
    named = f" ({', '.join(map(str, failed[:10]))})" if failed else ""
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed{named}, in {seconds:.0f} s", flush=True)
    quiet = quiet_floors(outcomes, rates.fixed) if not failed and not arguments.however_little else []
    for sentence in quiet:
        print(f"too little happened: {sentence}")
    return 1 if failed or quiet else 0


def same_kind(arguments: argparse.Namespace) -> str:
    """The options that a seed's history depends on."""
    options = [f"--history {name}" for name in arguments.history or ()]
    options += [f"--fault {name}={rate:g}" for name, rate in arguments.fault]
    options += ["--faults-at-highest"] * arguments.faults_at_highest + ["--outside"] * arguments.outside
    return "".join(f" {option}" for option in options)


if __name__ == "__main__":
    sys.exit(main())
