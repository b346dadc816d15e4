"""Runs `bmq spark` commands one after the other in one process, which start Spark once; prints one JSON line.

python -m tests.e2e.spark_commands '[["stats", "events", "--json"], …]' [--functions SOURCE TARGET DIRECTORY]

With --functions, what a notebook would call (tests.e2e.spark_functions) follows in the same session.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from typer.testing import CliRunner

from bmq.cli.commands import app
from tests.e2e.spark_functions import call_all


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("commands", type=json.loads)
    options.add_argument("--functions", nargs=3)
    given = options.parse_args()
    done = []
    for command in given.commands:
        result = CliRunner().invoke(app, ["spark", *command])
        failure = None if result.exception is None else repr(result.exception)
        done.append({"exit_code": result.exit_code, "out": result.stdout, "err": result.stderr, "failure": failure})
    functions = None
    if given.functions is not None:
        source, target, directory = given.functions
        functions = call_all(source, target, Path(directory))
    print(json.dumps({"commands": done, "functions": functions}))


if __name__ == "__main__":
    main()
