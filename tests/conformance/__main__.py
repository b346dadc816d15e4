"""`python -m tests.conformance [--api NAME …] [--case TEXT] [--clients [TEXT …]] [--show]`: bmq beside Apache Kafka.

Without these it is a whole run, of requests and of clients, which writes docs/CONFORMANCE.md and docs/conformance.json.
`--clients` alone runs all clients and writes their part of both anew; with words only the clients whose names have one of them
in it, and no document. Exit code 1: there is a difference that is not on the lists of intended ones, or an entry of a list that
nothing meets any more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from testing.processes import REPOSITORY
from tests.conformance.cases import all_cases
from tests.conformance.clients import matrix
from tests.conformance.clients.clients import all_clients
from tests.conformance.clients.run import observed_servers, run_clients
from tests.conformance.results import NO_CLIENTS, as_json, as_markdown
from tests.conformance.run import DATA, both_servers, compare_all, served_by
from tests.conformance.schemas import api_name

DOCUMENT: Final = REPOSITORY / "docs" / "CONFORMANCE.md"
RESULTS: Final = REPOSITORY / "docs" / "conformance.json"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--api", nargs="*", default=(), metavar="NAME", help="only these, as Kafka writes them")
    options.add_argument("--case", default="", metavar="TEXT", help="only cases whose names have this in them")
    options.add_argument(
        "--clients", nargs="*", metavar="TEXT", help="only clients: all, or those with this in the name"
    )
    options.add_argument("--out", metavar="FILE", help="the results as JSON there, and no document")
    options.add_argument("--verbose", action="store_true", help="a line for each case and client, with its time")
    given = options.parse_args()
    tell: Callable[[str], None] = print if given.verbose else lambda _: None
    is_partial = bool(given.api or given.case)
    if given.clients is not None:
        clients = clients_matrix(given.clients, tell)
        is_whole = not (given.clients or given.out)
        result = {**json.loads(RESULTS.read_text()), "clients": clients} if is_whole else {"clients": clients}
        lines = clients_summary(clients, is_whole)
    else:
        cases = [case for case in all_cases() if not given.api or api_name(case.api_key) in given.api]
        cases = [case for case in cases if given.case in case.name]
        is_whole = not (is_partial or given.out)
        began = time.monotonic()
        with both_servers() as (bmq, kafka):
            outcomes = compare_all(bmq, kafka, cases, tell)
            served = served_by(bmq, kafka)
        seconds = time.monotonic() - began
        result = as_json(outcomes, served, clients=NO_CLIENTS if is_partial else clients_matrix((), tell))
        lines = [*summary(result, is_whole), f"{len(outcomes)} requests in {seconds:.0f} s"]
        if not is_partial:
            lines += clients_summary(result["clients"], is_whole)
    for line in lines:
        print(line)
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if given.out:
        with open(given.out, "w") as file:
            file.write(text)
    if is_whole:
        RESULTS.write_text(text)
        DOCUMENT.write_text(as_markdown(result))
        print(f"{DOCUMENT.relative_to(REPOSITORY)} written")
    return 1 if has_failed(result, is_whole) else 0


def has_failed(result: Any, is_whole: bool) -> bool:
    """By what stands in it: the results of requests, of clients, or of both."""
    clients = result["clients"]
    missed = bool(result.get("differences")) or bool(matrix.unexplained(clients))
    return missed or (is_whole and bool(result.get("unmet") or clients["unmet"]))


def clients_matrix(names: Sequence[str], tell: Callable[[str], None]) -> Any:
    """Of the clients with one of these words in their names; no words: all of them."""
    clients = [one for one in all_clients() if not names or any(name in one.name for name in names)]
    with observed_servers() as (bmq, kafka):
        return matrix.as_json(run_clients(bmq, kafka, clients, DATA / "programs", tell))


def clients_summary(clients: Any, is_whole: bool) -> list[str]:
    missed = matrix.unexplained(clients)
    lines = [*missed]
    if is_whole:
        lines += [f"no client meets the reason {name!r} any more" for name in clients["unmet"]]
    return [*lines, f"{len(clients['clients'])} clients: {len(missed)} differences without a reason"]


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
