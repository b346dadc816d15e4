"""The last lines of a log: bounded, numbered over restarts, and without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from bmq.admin.recent_logs import LINE_BYTES_MAX, RecentLogs, event_of, fields_of
from bmq.server.logs import show_logs
from bmq.server.redaction import HIDDEN, Redactor

pytestmark = pytest.mark.unit


def texts(recent: RecentLogs) -> list[str]:
    return [line.text for line in recent.lines()]


def test_lines_are_bounded_in_number_and_bytes() -> None:
    recent = RecentLogs(lambda: 7, lines_max=3, bytes_max=1_000)
    for number in range(5):
        recent.keep(f'{{"event": "e{number}"}}')
    assert texts(recent) == ['{"event": "e2"}', '{"event": "e3"}', '{"event": "e4"}']
    assert [line.number for line in recent.lines()] == [7_002, 7_003, 7_004]
    recent.keep(json.dumps({"event": "x" * 980}))
    assert len(texts(recent)) == 1, "older ones make room for a large one"
    recent.keep("{}")
    assert sum(map(len, texts(recent))) <= 1_000


def test_numbers_go_on_after_a_restart() -> None:
    before, after = RecentLogs(lambda: 1_000), RecentLogs(lambda: 1_001)
    for _ in range(900):
        before.keep("{}")
    after.keep("{}")
    assert before.lines()[-1].number < after.lines()[0].number


def test_a_long_line_is_shortened() -> None:
    recent = RecentLogs(lambda: 0)
    recent.keep(
        json.dumps({"list": list(range(LINE_BYTES_MAX)), "text": "y" * 5_000, "event": "long", "level": "info"})
    )
    recent.keep("no JSON " * LINE_BYTES_MAX)
    first, second = (fields_of(text) for text in texts(recent))
    assert (first["event"], first["level"]) == ("long", "info")
    assert len(first["text"]) == 1_001 and len(first["list"]) == 1_001
    assert second == {"event": "line_not_readable"}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"event": "e", "reason": "sasl.password=geheim x"}, {"event": "e", "reason": f"sasl.password={HIDDEN} x"}),
        ({"event": "e", "password": "p"}, {"event": "e", "password": HIDDEN}),
        ({"event": "e", "deep": {"of": ["known-one"]}}, {"event": "e", "deep": {"of": [HIDDEN]}}),
        ({"event": "e", "count": 3, "none": None}, {"event": "e", "count": 3, "none": None}),
    ],
)
def test_secrets_are_blanked(fields: dict[str, Any], shown: dict[str, Any]) -> None:
    assert event_of(json.dumps(fields), Redactor(["known-one"]).text) == shown


def test_what_is_blanked_with_a_quote_hides_one_field_only() -> None:
    def greedy(text: str) -> str:
        return text.replace('secret"', HIDDEN)

    assert event_of('{"event": "e", "a": "my secret", "b": 1}', greedy) == {"event": "e", "a": "(hidden)", "b": 1}
    assert event_of("not JSON", greedy) == {"event": "line_not_readable"}


@pytest.fixture
def logged() -> Iterator[Callable[[str], RecentLogs]]:
    """Sets up logs in a form, and gives what is kept of them."""
    before = structlog.get_config()

    def set_up(form: str) -> RecentLogs:
        recent = RecentLogs(lambda: 0)
        show_logs(lambda name, level: level >= 20, "info", form, None, recent.keep)
        structlog.configure(cache_logger_on_first_use=False)
        return recent

    yield set_up
    structlog.configure(**before)


@pytest.mark.parametrize("form", ["json", "text"])
def test_what_is_logged_is_kept_in_both_forms(
    logged: Callable[[str], RecentLogs], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recent = logged(form)
    log = structlog.get_logger("bmq.part")
    log.debug("hidden")
    log.info("begun", topic="a\x1bb", thing=object)
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("it_failed")
    begun, failed = (fields_of(text) for text in texts(recent))
    assert (begun["event"], begun["level"], begun["topic"]) == ("begun", "info", "a\x1bb")
    assert begun["timestamp"].endswith("Z") and "object" in begun["thing"]
    assert failed["level"] == "error" and "ValueError: why" in failed["exception"]
    written = capsys.readouterr().err
    assert "begun" in written and "ValueError" in written, "what is kept is written as well"


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_shows_no_local_variables_and_steers_no_terminal(
    logged: Callable[[str], RecentLogs], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    password = "-".join(("of", "a", "variable"))
    logged(form)
    try:
        raise ValueError("client \x1b[2Jname")
    except ValueError:
        structlog.get_logger("bmq.part").exception("it_failed")
    written = capsys.readouterr().err
    assert "ValueError: client " in written
    assert password not in written and "\x1b[2J" not in written
