"""Which delayed record a record cancels, by its header."""

from __future__ import annotations

import pytest

from bmq.log.timers.announcements import Position
from bmq.log.timers.cancel_headers import CANCEL, CancelRefused, cancelled_by
from bmq.log.timers.due_headers import DELIVER_AFTER, DELIVER_AT, TIME_MS_MAX

pytestmark = pytest.mark.unit


def test_header_names_offset_and_due_time() -> None:
    assert cancelled_by([(b"other", None), (CANCEL, b"17,1700000000000")]) == Position(1_700_000_000_000, 17)
    assert cancelled_by([(CANCEL, b"%d,%d" % (2**63 - 1, TIME_MS_MAX))]) == Position(TIME_MS_MAX, 2**63 - 1)
    assert cancelled_by([(b"bmq-cancelled", b"x"), (DELIVER_AT, b"x")]) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"17",
        b"17,",
        b",17",
        b"17,18,19",
        b"-1,17",
        b"17, 18",
        b"+17,18",
        b"17,18\n",
        "١٧,18".encode(),
        b"9" * 20 + b",1",
        b"%d,1" % 2**63,
        b"1,%d" % (TIME_MS_MAX + 1),
    ],
)
def test_other_values_are_refused_in_one_sentence(value: bytes | None) -> None:
    with pytest.raises(CancelRefused, match=r"^the header bmq-cancel [^\n]+$"):
        cancelled_by([(CANCEL, value)])


@pytest.mark.parametrize("other", [CANCEL, DELIVER_AT, DELIVER_AFTER])
def test_two_wishes_in_one_record_are_refused(other: bytes) -> None:
    for headers in ([(CANCEL, b"1,2"), (other, b"1,2")], [(other, b"1,2"), (CANCEL, b"1,2")]):
        with pytest.raises(CancelRefused, match=r"more than once|cannot be delayed itself"):
            cancelled_by(headers)
