"""docs/EVENTS.md lists every event that the code logs, and no other."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.docs.pages import REPOSITORY
from tools.events_page import PAGE, filled
from tools.log_events import events, log_calls

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

# A call with a constant name, as a line of text; another way to find events than tools/log_events.py has.
PLAIN_CALL: Final = re.compile(r"\blog\.(?:debug|info|warning|error|exception)\(\s*\"([a-z_]+)\"")
ENTRY: Final = re.compile(r"^- \*\*`([a-z_]+)`\*\* \(", re.MULTILINE)


@in_campaign
def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == filled(page, events(log_calls(REPOSITORY / "bmq"))), "run make events-page"


def test_every_name_in_the_text_of_the_code_is_listed() -> None:
    found = {
        name
        for path in (REPOSITORY / "bmq").rglob("*.py")
        for name in PLAIN_CALL.findall(path.read_text(encoding="utf-8").replace("_log.", "log."))
    }
    assert len(found) > 200, "the pattern finds calls"
    assert found - set(ENTRY.findall(PAGE.read_text(encoding="utf-8"))) == set()


def test_events_that_operators_are_told_to_watch_exist() -> None:
    listed = set(ENTRY.findall(PAGE.read_text(encoding="utf-8")))
    operations = (REPOSITORY / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    named = set(re.findall(r"log line `([a-z_]+)`", operations))
    assert named and named - listed == set()


def test_a_page_without_a_place_for_the_list_is_refused() -> None:
    with pytest.raises(ValueError, match="has no <!-- events -->"):
        filled("# Log events\n", [])
