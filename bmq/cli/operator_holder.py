"""Who writes to the store when an operator's command does."""

from __future__ import annotations

import random


def operator_holder() -> str:
    """A holder of files that no server and no other command has."""
    return f"operator-{random.Random().getrandbits(64):016x}"
