"""`python -m tests.conformance.rights [--api NAME …] [--case TEXT] [--verbose]`: users with and without rights, beside Kafka.

A request of each API in each version is sent to bmq and to Apache Kafka by a user with no right, users with each right alone,
users with all rights but one, and one with all. Whole answers are compared. Exit code 1: there is a difference that is not
on the reviewed list (tests/conformance/rights/intended.py, and that of the conformance run), or an entry of the first that
nothing meets. `--sets N --seed S` asks as N users with random sets of ACLs instead. `--record` writes Kafka's answers to a sample, which the gate compares with bmq's alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.conformance.rights.asked import asked_cases, in_turn, personas
from tests.conformance.rights.judged import Judged
from tests.conformance.rights.personas import PERSONAS, drawn
from tests.conformance.rights.recorded import record
from tests.conformance.rights.run import ask_all
from tests.conformance.rights.sides import KAFKA, started
from tests.conformance.schemas import api_name


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--api", nargs="*", default=(), metavar="NAME", help="only these, as Kafka writes them")
    options.add_argument("--case", default="", metavar="TEXT", help="only cases whose names have this in them")
    options.add_argument(
        "--sets", type=int, default=0, metavar="N", help="users with random ACLs, in place of the others"
    )
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--record", action="store_true", help="only write Kafka's answers to the gate's sample")
    options.add_argument("--verbose", action="store_true", help="a line for each case, with its time")
    given = options.parse_args()
    tell: Callable[[str], None] = (lambda line: print(line, flush=True)) if given.verbose else lambda _: None
    if given.record:
        with started([KAFKA]) as sides:
            print(f"{record(sides[0])} answers of Kafka's written")
        return 0
    cases = [one for one in asked_cases() if not given.api or api_name(one.api_key) in given.api]
    cases = [one for one in cases if given.case in one.name]
    began, judged = time.monotonic(), Judged()
    drawn_ones = drawn(given.seed, given.sets)
    who = in_turn(drawn_ones) if drawn_ones else personas
    with started(personas=drawn_ones or PERSONAS) as sides:
        for asked in ask_all(sides, cases, who, tell=tell):
            judged.add(asked)
    for line in judged.lines():
        print(line)
    unmet = [] if given.api or given.case or given.sets else judged.unmet()
    for name in unmet:
        print(f"nothing meets the intended difference {name!r} any more")
    print(f"{judged.requests} requests in {time.monotonic() - began:.0f} s")
    print(f"error_differences {judged.errors}")
    return 1 if judged.errors or unmet else 0


if __name__ == "__main__":
    sys.exit(main())
