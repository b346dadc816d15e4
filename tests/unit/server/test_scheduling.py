"""How a server asks the kernel for its turns where it may not."""

from __future__ import annotations

import os

import pytest

from bmq.server import scheduling

pytestmark = pytest.mark.unit


def test_a_refusal_of_the_kernel_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def refuse(*arguments: object) -> None:
        asked.append(arguments)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    monkeypatch.setattr(os, "nice", lambda _: 19)
    scheduling.run_in_batches()
    scheduling.run_when_idle()
    assert len(asked) == 2
    assert asked[1][1] == os.SCHED_IDLE
