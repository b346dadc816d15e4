"""Run the smoke of a benchmark: does it still run, and does its file judge every criterion?

    python -m tools.bench_smoke standalone|hdfs|cluster|topics

No figure is looked at: this machine may be busy. What a benchmark could not measure fails, and so does a criterion that the
results in bench/results have and this run does not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
BENCHES = ("standalone", "hdfs", "cluster", "topics")


def problems(found: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    """What is wrong with the results of a run; `published`: those in the repository."""
    ids = [criterion["id"] for criterion in found["criteria"]]
    # Results of an earlier form had other criteria, and a benchmark that was never run whole has none.
    is_comparable = found.get("format") == published.get("format")
    missing = sorted({criterion["id"] for criterion in published["criteria"]} - set(ids)) if is_comparable else []
    wrong = [f"criterion {name} is there twice" for name in sorted(set(ids)) if ids.count(name) > 1]
    wrong += [f"criterion {name} is missing" for name in missing]
    wrong += [f"{part} failed: {reasons}" for part, reasons in found.get("failures", {}).items()]
    return wrong if ids else ["there are no criteria"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", choices=BENCHES)
    bench = options.parse_args().bench
    whole = REPOSITORY / "bench" / "results" / f"{bench}.json"
    published = json.loads(whole.read_text()) if whole.exists() else {}
    with tempfile.TemporaryDirectory(prefix="bmq-smoke-") as directory:
        results = Path(directory) / "results.json"
        command = [sys.executable, "-m", f"bench.{bench}", "--smoke", "--results", str(results)]
        code = subprocess.run(command).returncode
        if code or not results.exists():
            print(f"the benchmark ended with {code}{'' if results.exists() else ' and wrote nothing'}")
            return 1
        found = json.loads(results.read_text())
    wrong = problems(found, published)
    for problem in wrong:
        print(problem)
    print(f"{len(found['criteria'])} criteria, {'nothing wrong' if not wrong else f'{len(wrong)} problems'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
