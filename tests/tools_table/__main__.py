"""`python -m tests.tools_table [--tool NAME …] [--case TEXT]`: what Kafka's command line tools print on bmq, beside Apache Kafka.

Without --tool and --case it is a whole run, which writes docs/TOOLS.md and docs/tools.json. Exit code 1: there is a
difference that is not on the list of intended ones, an entry of the list that nothing meets any more, or an option
without a case.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Final

from testing.processes import REPOSITORY
from tests.tools_table.cases import all_cases
from tests.tools_table.results import as_json, as_markdown, without_case
from tests.tools_table.run import both_servers, compare_all, options_by_tool
from tests.tools_table.tools import TOOLS

DOCUMENT: Final = REPOSITORY / "docs" / "TOOLS.md"
RESULTS: Final = REPOSITORY / "docs" / "tools.json"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--tool", nargs="*", default=(), metavar="NAME", help="only these, as their scripts are called"
    )
    options.add_argument("--case", default="", metavar="TEXT", help="only cases whose names have this in them")
    options.add_argument("--out", metavar="FILE", help="the results as JSON there, and no document")
    options.add_argument("--verbose", action="store_true", help="a line for each case, with its time")
    given = options.parse_args()
    tools = [tool for tool in TOOLS if not given.tool or tool in given.tool]
    cases = [case for case in all_cases() if case.tool in tools and given.case in case.name]
    is_whole = not (given.tool or given.case or given.out)
    began = time.monotonic()
    with both_servers() as (bmq, kafka, runner):
        outcomes = compare_all(bmq, kafka, cases, print if given.verbose else lambda _: None)
        result = as_json(outcomes, options_by_tool(runner, tools))
    for line in summary(result, is_whole):
        print(line)
    steps = sum(len(outcome.steps) for outcome in outcomes)
    print(f"{steps} commands in {time.monotonic() - began:.0f} s")
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if given.out:
        with open(given.out, "w") as file:
            file.write(text)
    if is_whole:
        RESULTS.write_text(text)
        DOCUMENT.write_text(as_markdown(result))
        print(f"{DOCUMENT.relative_to(REPOSITORY)} written")
    return 1 if result["differences"] or (is_whole and (result["unmet"] or without_case(result))) else 0


def summary(result: Any, is_whole: bool) -> list[str]:
    lines = []
    for one in result["differences"]:
        lines += ["", f"{one['case']}: {one['command']}"]
        for difference in one["differences"]:
            lines += [f"    bmq    {line}" for line in difference["bmq"]]
            lines += [f"    Kafka  {line}" for line in difference["kafka"]]
    if is_whole:
        lines += [f"nothing meets the intended difference {name!r} any more" for name in result["unmet"]]
    lines += [f"no case for {option}" for option in without_case(result)]
    lines.append(f"{len(result['differences'])} commands print other than listed")
    return lines


if __name__ == "__main__":
    sys.exit(main())
