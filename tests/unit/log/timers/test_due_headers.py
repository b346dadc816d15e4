"""When a record asks to be delivered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.timers.due_headers import COMMON_PREFIX, DELIVER_AFTER, DELIVER_AT, LEVELS_MS, DueRefused, due_ms_of

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000
MONTH_MS = 30 * 24 * 3_600_000


def due(*headers: tuple[bytes, bytes | None], delay_max_ms: int = MONTH_MS) -> int | None:
    return due_ms_of(headers, NOW_MS, delay_max_ms)


def test_record_without_headers_does_not_ask() -> None:
    assert due((b"other", b"17"), (b"bmq-deliver-atlas", b"x")) is None
    assert DELIVER_AT.startswith(COMMON_PREFIX) and DELIVER_AFTER.startswith(COMMON_PREFIX)


def test_time_and_delay() -> None:
    assert due((DELIVER_AT, b"%d" % (NOW_MS + 5))) == NOW_MS + 5
    assert due((DELIVER_AT, b"0")) == 0
    assert due((DELIVER_AFTER, b"5000")) == NOW_MS + 5000
    assert due((DELIVER_AFTER, b"0")) == NOW_MS
    assert due((DELIVER_AFTER, b"99999"), (DELIVER_AT, b"%d" % (NOW_MS + 1))) == NOW_MS + 1, "the time is stronger"


def test_levels_are_those_of_rocketmq() -> None:
    assert len(LEVELS_MS) == 18
    assert [due((DELIVER_AFTER, b"%d" % level)) for level in (1, 5, 18, 19)] == [
        NOW_MS + 1_000,
        NOW_MS + 60_000,
        NOW_MS + 7_200_000,
        NOW_MS + 19,
    ]


@pytest.mark.parametrize("value", [None, b"", b"-1", b"+1", b"soon", b"1.5", b" 1", b"1\n", "１".encode(), b"9" * 20])
@pytest.mark.parametrize("name", [DELIVER_AT, DELIVER_AFTER])
def test_what_is_no_number_is_refused(name: bytes, value: bytes | None) -> None:
    with pytest.raises(DueRefused, match=f"{name.decode()} is not a number"):
        due((name, value))


@pytest.mark.parametrize("name", [DELIVER_AT, DELIVER_AFTER])
def test_header_given_twice_is_refused(name: bytes) -> None:
    with pytest.raises(DueRefused, match="more than once"):
        due((name, b"1"), (b"between", b""), (name, b"1"))


def test_delay_over_the_maximum_is_refused() -> None:
    assert due((DELIVER_AFTER, b"1000"), delay_max_ms=1000) == NOW_MS + 1000
    for header in ((DELIVER_AFTER, b"1001"), (DELIVER_AT, b"%d" % (NOW_MS + 1001)), (DELIVER_AT, b"%d" % (2**63 - 1))):
        with pytest.raises(DueRefused, match=r"bmq\.delay\.max\.ms allows 1000"):
            due(header, delay_max_ms=1000)
    with pytest.raises(DueRefused):
        due((DELIVER_AT, b"%d" % (2**63 - 1)), delay_max_ms=2**63 - 1)


@given(st.lists(st.tuples(st.sampled_from([DELIVER_AT, DELIVER_AFTER, b"x"]), st.binary(max_size=20) | st.none())))
def test_any_headers_give_a_time_within_the_maximum_or_a_refusal(headers: list[tuple[bytes, bytes | None]]) -> None:
    try:
        found = due_ms_of(headers, NOW_MS, MONTH_MS)
    except DueRefused as error:
        assert str(error)
    else:
        assert found is None or 0 <= found <= NOW_MS + MONTH_MS
