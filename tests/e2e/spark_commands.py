"""Runs `bmq spark` commands one after the other in one process, which start Spark once; prints one JSON line.

python -m tests.e2e.spark_commands '[["stats", "events", "--json"], …]'
"""

from __future__ import annotations

import json
import sys

from typer.testing import CliRunner

from bmq.cli.commands import app


def main() -> None:
    done = []
    for command in json.loads(sys.argv[1]):
        result = CliRunner().invoke(app, ["spark", *command])
        failure = None if result.exception is None else repr(result.exception)
        done.append({"exit_code": result.exit_code, "out": result.stdout, "err": result.stderr, "failure": failure})
    print(json.dumps(done))


if __name__ == "__main__":
    main()
