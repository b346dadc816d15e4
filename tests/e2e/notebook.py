"""Executes a notebook as Jupyter does, in a kernel of this interpreter.

python -m tests.e2e.notebook NOTEBOOK EXECUTED       reads the first file and writes the second, with outputs
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_TIMEOUT_S = 200


def main() -> None:
    source, executed = map(Path, sys.argv[1:])
    notebook = nbformat.read(source, as_version=4)
    resources = {"metadata": {"path": str(source.parent)}}
    try:
        NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources=resources).execute()
    finally:
        # Also of one that failed: what it had shown by then.
        nbformat.write(notebook, executed)


if __name__ == "__main__":
    main()
