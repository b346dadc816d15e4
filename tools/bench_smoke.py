"""Run one of the benchmarks at its smallest: does it still run, and does its file judge every criterion?

    python -m tools.bench_smoke standalone|hdfs|cluster

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
# One pair, or the parts that between them start every process there is.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "standalone": ("bench.standalone", "--quick", "--pairs", "1"),
    "hdfs": ("bench.hdfs", "--quick", "--pairs", "1"),
    "cluster": ("bench.cluster", "--quick", "--only", "kill9_broker", "metadata"),
}


def problems(found: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    """What is wrong with the results of a run; `published`: those in the repository."""
    ids = [criterion["id"] for criterion in found["criteria"]]
    missing = sorted({criterion["id"] for criterion in published["criteria"]} - set(ids))
    wrong = [f"criterion {name} is there twice" for name in sorted(set(ids)) if ids.count(name) > 1]
    wrong += [f"criterion {name} is missing" for name in missing]
    wrong += [f"{part} failed: {reasons}" for part, reasons in found.get("failures", {}).items()]
    return wrong if ids else ["there are no criteria"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", choices=sorted(COMMANDS))
    bench = options.parse_args().bench
    published = json.loads((REPOSITORY / "bench" / "results" / f"{bench}.json").read_text())
    with tempfile.TemporaryDirectory(prefix="bmq-smoke-") as directory:
        results = Path(directory) / "results.json"
        code = subprocess.run([sys.executable, "-m", *COMMANDS[bench], "--results", str(results)]).returncode
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
