"""Completion of commands in bash, zsh and fish; what a shell asks for is answered by the command itself."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final

PROGRAM: Final = "bmq"
ASKED_BY: Final = "_BMQ_COMPLETE"
"""The variable by which a shell's script asks."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def is_asked() -> bool:
    return ASKED_BY in os.environ


def prepare() -> None:
    """Make typer answer in the form of its own scripts, not of click's."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()


def script(shell: Shell) -> str:
    """To be evaluated by the shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    return get_completion_script(prog_name=PROGRAM, complete_var=ASKED_BY, shell=shell.value)
