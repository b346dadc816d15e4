"""Writes a target's seeds into a directory: python -m tests.fuzz.seeding TARGET DIRECTORY"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.target import target_of


def main() -> None:
    name, directory = sys.argv[1:]
    for number, data in enumerate(target_of(name).seeds()):
        Path(directory, f"seed-{number:04d}").write_bytes(data)


if __name__ == "__main__":
    main()
