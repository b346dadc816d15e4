"""`python -m tests.conformance.rights [--api NAME …] [--case TEXT] [--verbose]`: users with and without rights, beside Kafka.

A request of each API in each version is sent to bmq and to Apache Kafka by a user with no right, users with each right alone,
users with all rights but one, and one with all. Whole answers are compared. `--sets N --seed S` asks as N users with random
sets of ACLs instead, in waves: each wave has random ACLs of everybody's (`User:*`) as well. `acl_differences`: requests that
only one server refuses, wholly or in part, and ACLs that only one lists. `error_differences`: all requests with differences.

Exit code 1: there is a difference that is not on the reviewed list (tests/conformance/rights/intended.py, and that of the
conformance run), an entry of the first that nothing meets, or a version that nobody asked. `--record` writes Kafka's answers
to a sample, which the gate compares with bmq's alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.conformance.rights.asked import NOT_ASKED, asked_cases
from tests.conformance.rights.judged import Judged
from tests.conformance.rights.personas import PERSONAS
from tests.conformance.rights.random_sets import ask_in_waves, drawn_waves
from tests.conformance.rights.recorded import record
from tests.conformance.rights.run import all_versions, ask_all
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
    waves = drawn_waves(given.seed, given.sets)
    with started(personas=[user for wave in waves for user in wave.users] or PERSONAS) as sides:
        if waves:
            ask_in_waves(sides, waves, cases, judged, tell)
        else:
            for asked in ask_all(sides, cases, tell=tell):
                judged.add(asked)
        served = all_versions(sides, NOT_ASKED)
    for line in judged.lines():
        print(line)
    is_whole = not given.api and not given.case
    unmet = judged.unmet() if is_whole and not waves else []
    for name in unmet:
        print(f"nothing meets the intended difference {name!r} any more")
    missed = sorted(served - judged.versions) if is_whole else []
    for api_key, version in missed:
        print(f"nobody asked {api_name(api_key)} in version {version}")
    print(f"{judged.requests} requests by {len(judged.users)} users in {time.monotonic() - began:.0f} s")
    print(f"api_versions {len(judged.versions)} of {len(served)}")
    print(f"acl_differences {judged.acls}")
    print(f"error_differences {judged.errors}")
    return 1 if judged.errors or judged.acls or unmet or missed else 0


if __name__ == "__main__":
    sys.exit(main())
