"""`python -m tests.conformance [--api NAME …] [--case TEXT] [--show]`: bmq's answers beside Apache Kafka's.

Without --api and --case it is a whole run, which writes docs/CONFORMANCE.md and docs/conformance.json. Exit code 1: there
is a difference that is not on the list of intended ones, or an entry of the list that nothing meets any more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Final

from tests.conformance.cases import all_cases
from tests.conformance.results import as_json, as_markdown
from tests.conformance.run import both_servers, compare_all, served_by
from tests.conformance.schemas import api_name
from tests.support.processes import REPOSITORY

DOCUMENT: Final = REPOSITORY / "docs" / "CONFORMANCE.md"
RESULTS: Final = REPOSITORY / "docs" / "conformance.json"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--api", nargs="*", default=(), metavar="NAME", help="only these, as Kafka writes them")
    options.add_argument("--case", default="", metavar="TEXT", help="only cases whose names have this in them")
    options.add_argument("--out", metavar="FILE", help="the results as JSON there, and no document")
    options.add_argument("--verbose", action="store_true", help="a line for each case, with its time")
    given = options.parse_args()
    cases = [case for case in all_cases() if not given.api or api_name(case.api_key) in given.api]
    cases = [case for case in cases if given.case in case.name]
    is_whole = not (given.api or given.case or given.out)
    began = time.monotonic()
    with both_servers() as (bmq, kafka):
        tell = print if given.verbose else lambda _: None
        outcomes = compare_all(bmq, kafka, cases, tell)
        result = as_json(outcomes, served_by(bmq, kafka))
    for line in summary(result, is_whole):
        print(line)
    print(f"{len(outcomes)} requests in {time.monotonic() - began:.0f} s")
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if given.out:
        with open(given.out, "w") as file:
            file.write(text)
    if is_whole:
        RESULTS.write_text(text)
        DOCUMENT.write_text(as_markdown(result))
        print(f"{DOCUMENT.relative_to(REPOSITORY)} written")
    return 1 if result["differences"] or (is_whole and result["unmet"]) else 0


def summary(result: Any, is_whole: bool) -> list[str]:
    lines = []
    for one in result["differences"]:
        lines.append(f"{one['api']} {one['version']}: {one['case']}")
        lines += [f"    {each['path']}: bmq {each['bmq']!r}, Kafka {each['kafka']!r}" for each in one["differences"]]
    if is_whole:
        lines += [f"nothing meets the intended difference {name!r} any more" for name in result["unmet"]]
    lines.append(f"{len(result['differences'])} requests are answered otherwise than listed")
    return lines


if __name__ == "__main__":
    sys.exit(main())
