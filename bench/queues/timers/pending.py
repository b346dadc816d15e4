"""Millions of pending records: what `bench.micro_timers` finds in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from testing.processes import REPOSITORY, dying_with_us


def measure(directory: Path, records: int, record_bytes: int, limit_s: float) -> dict[str, Any]:
    """Raises CalledProcessError, TimeoutExpired."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "bench.micro_timers", "--json", "--directory", str(directory)),
        *("--records", str(records), "--bytes", str(record_bytes)),
    ]
    done = subprocess.run(
        dying_with_us(command), stdout=subprocess.PIPE, text=True, timeout=limit_s, check=True, cwd=REPOSITORY
    )
    return cast(dict[str, Any], json.loads(done.stdout.splitlines()[-1]))
