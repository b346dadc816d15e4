"""A server says in one line that it has no kernel, and nothing if it has one."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from bmq.records.native.library import Kernel, kernel
from bmq.server import native_kernel
from bmq.server.native_kernel import warn_without_kernel

pytestmark = pytest.mark.unit


def test_one_line_says_why_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_kernel, "kernel", lambda: Kernel(None, "no compiler was there"))
    with capture_logs() as lines:
        warn_without_kernel()
    assert lines == [{"event": "kernel_missing", "reason": "no compiler was there", "log_level": "warning"}]


def test_nothing_is_said_of_a_kernel_that_is_there() -> None:
    assert kernel().library is not None, kernel().reason
    with capture_logs() as lines:
        warn_without_kernel()
    assert lines == []
