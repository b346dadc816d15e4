"""Runs a benchmark: python -m bench NAME [OPTION ...]. Without a name it lists them.

A campaign is a package of bench with a `__main__`; a micro benchmark is `micro_NAME.py` and goes by NAME. A module below
a campaign goes by its dotted name (core.revisions).
"""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).parent


def benchmarks() -> Mapping[str, Path]:
    """By name: the file that runs it; a name that both kinds have is the campaign's."""
    campaigns = {path.parent.name: path for path in sorted(DIRECTORY.glob("*/__main__.py"))}
    runnable = [path for path in sorted(DIRECTORY.glob("micro_*.py")) if '__name__ == "__main__"' in path.read_text()]
    micro = {path.stem.removeprefix("micro_"): path for path in runnable}
    return campaigns | {name: path for name, path in micro.items() if name not in campaigns}


def module_of(name: str) -> str | None:
    """The module to run; None: there is no such benchmark."""
    path = benchmarks().get(name)
    if path is None:
        parts = name.split(".")
        path = DIRECTORY.joinpath(*parts).with_suffix(".py")
        if not all(part.isidentifier() for part in parts) or parts[0] == "__main__" or not path.exists():
            return None
    parent = path.relative_to(DIRECTORY.parent).with_suffix("")
    return ".".join(parent.parts)


def subject(path: Path) -> str:
    """The first line of the module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0]


def main(arguments: Sequence[str]) -> int:
    found = benchmarks()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("python -m bench NAME [OPTION ...]; each has --help\n")
        for name, path in found.items():
            print(f"{name:<18}{subject(path)}")
        return 0
    module = module_of(arguments[0])
    if module is None:
        print(f"there is no benchmark {arguments[0]}: {', '.join(found)}", file=sys.stderr)
        return 2
    sys.argv = [module, *arguments[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
