"""The name under which an operator's command writes files of the store."""

from __future__ import annotations

import random


def operator_holder() -> str:
    """A holder of files that no server and no other command has."""
    return f"operator-{random.Random().getrandbits(64):016x}"
