"""Runs the commands of a section of docs/OPERATIONS.md as they stand there, with Hadoop's commands on the path."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from bmq.dev.java import QUICK_START_JVM_OPTIONS, java_command
from testing.hdfs import HADOOP_JARS
from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us

PAGE = REPOSITORY / "docs" / "OPERATIONS.md"
TOOLS = {"dfs": "fs.FsShell", "dfsadmin": "hdfs.tools.DFSAdmin", "fsck": "hdfs.tools.DFSck"}
"""Subcommands of `hdfs`, and the classes that Hadoop's script starts for them."""


def commands_of(heading: str, page: str | None = None) -> list[str]:
    """The blocks of commands below a heading, up to the next one. Raises AssertionError: there are none."""
    text = PAGE.read_text() if page is None else page
    _, found, rest = text.partition(f"### {heading}\n")
    assert found, f"{PAGE.name} has no section {heading!r}"
    section = re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert blocks, f"section {heading!r} has no commands"
    return blocks


def run_page(heading: str, tools: Path, **variables: str) -> str:
    """Run all commands of a section, each of which has to succeed; what they said. `tools`: as `hadoop_tools` made it."""
    return run_commands("".join(commands_of(heading)), tools, **variables)


def run_commands(commands: str, tools: Path, **variables: str) -> str:
    """Run commands of a shell, as `run_page` does."""
    script = f"set -eu -o pipefail\n{commands}"
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        dying_with_us(["bash", "-c", script]),
        env={**os.environ, **variables, "PATH": path},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=Patience(120).limit_s,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def hadoop_tools(directory: Path, configuration: Path) -> Path:
    """A directory with the command `hdfs`, which talks to the cluster of this configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    cases = []
    for name, main_class in TOOLS.items():
        command = java_command(
            f"org.apache.hadoop.{main_class}",
            (),
            jars=HADOOP_JARS,
            configuration=configuration,
            heap_mb=128,
            options=QUICK_START_JVM_OPTIONS,
        )
        cases.append(f'{name}) exec {shlex.join(command)} "$@" ;;\n')
    script = directory / "hdfs"
    script.write_text('#!/bin/bash\nname=$1; shift\ncase "$name" in\n' + "".join(cases) + "*) exit 64 ;;\nesac\n")
    script.chmod(0o755)
    return directory
