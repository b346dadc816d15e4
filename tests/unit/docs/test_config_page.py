"""docs/CONFIG.md: its tables are those that the code gives."""

from __future__ import annotations

import pytest

from bmq.server.settings import load_settings
from tools.config_page import PAGE, filled, parts

pytestmark = pytest.mark.unit


def test_the_page_is_current() -> None:
    page = PAGE.read_text()
    assert page == filled(page), "run make config-page"


def test_every_setting_has_a_row_with_a_meaning(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    rows = [line for name in ("settings", "tables") for line in parts()[name]][2:]
    meanings = {row.split("`")[1]: row.split(" | ", 2)[2] for row in rows if row.startswith("| `")}
    names = {origin.name for origin in load_settings({}, None).origins}
    assert names - meanings.keys() == set()
    assert [name for name, meaning in meanings.items() if len(meaning) < len("of one")] == []


def test_a_page_without_a_place_for_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="has no <!-- tables -->"):
        filled(PAGE.read_text().replace("<!-- tables -->", ""))


def test_a_changed_row_is_written_again() -> None:
    page = PAGE.read_text()
    assert filled(page.replace("| `node_id` | `1` |", "| `node_id` | `2` |")) == page
