"""Runs `bmq spark` commands one after the other in one process, which start Spark once; prints one JSON line.

python -m tests.e2e.spark_commands SOURCE TARGET DIRECTORY '[["stats", "events", "--json"], …]'

What a notebook would call (tests.e2e.spark_functions) follows in the same session.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from bmq.cli.commands import app
from tests.e2e.spark_functions import call_all


def main() -> None:
    source, target, directory, commands = sys.argv[1:]
    done = []
    for command in json.loads(commands):
        result = CliRunner().invoke(app, ["spark", *command])
        failure = None if result.exception is None else repr(result.exception)
        done.append({"exit_code": result.exit_code, "out": result.stdout, "err": result.stderr, "failure": failure})
    print(json.dumps({"commands": done, "functions": call_all(source, target, Path(directory))}))


if __name__ == "__main__":
    main()
