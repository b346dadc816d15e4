"""How a server asks the kernel for its turns where it may not."""

from __future__ import annotations

import os

import pytest

from bmq.cli import scheduling

pytestmark = pytest.mark.unit


def test_a_refusal_of_the_kernel_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*arguments: object) -> None:
        asked.append(arguments)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    scheduling.run_in_batches()
    assert len(asked) == 1
