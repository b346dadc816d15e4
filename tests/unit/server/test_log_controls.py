"""What a client names itself does not steer the terminal of who reads the log."""

from __future__ import annotations

import pytest
import structlog

from bmq.server.logs import without_controls

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("value", ["\x1b[31mred", "a\x9b2Jb", "bell\x07", "nul\0", "x\ny", "\r\x1b[2K forged=line"])
def test_characters_that_steer_are_shown(value: str) -> None:
    render = structlog.dev.ConsoleRenderer(colors=False)
    line = str(render(None, "info", without_controls(None, "info", {"event": "e", "client": value, "count": 1})))
    assert line.isprintable() and "count=1" in line
    assert [*line].count("=") == value.count("=") + 2


def test_other_text_stays_as_it_is() -> None:
    assert without_controls(None, "info", {"client": "café x\ty\n", "size": 3}) == {"client": "café x\ty\n", "size": 3}
