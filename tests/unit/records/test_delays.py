"""Delayed records taken out of a batch: by the kernel as by its twin, and as bmq/log/timers/holding does without either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from unittest.mock import patch

import pytest

from bmq.log.timers import holding
from bmq.log.timers.due_headers import LEVELS_MS, TIME_MS_MAX
from bmq.log.timers.holding import Delays, split
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.record_batch import LOG_APPEND_TIME, BatchHeader
from bmq.records import delays_native, delays_twin
from bmq.records.delay_layout import DelayedSplit, DelayTerms
from tests.fuzz.kernel_cases import mutated
from tests.unit.records.delay_cases import NOW_MS, TERMS, body_of, line_of, random_case, random_records, split_line

pytestmark = pytest.mark.unit

CASES = 1_500
OUR_OTHERS = ("bmq-deliver-af", "bmq-cancel")


def native_line(case: bytes) -> str | None:
    terms = TERMS._replace(append_time_ms=NOW_MS if case[2] else None)
    found = delays_native.split_delays(case[3:], case[0], case[1], terms)
    return None if found is None else f"0 {line_of(found)}"


def cases() -> Iterator[bytes]:
    dice = Random(7)
    made = [random_case(dice) for _ in range(CASES)]
    yield from made
    yield from (one for one in mutated(made, dice, CASES) if len(one) >= 3)


def test_the_kernel_answers_as_its_twin() -> None:
    answered = 0
    for case in cases():
        line = split_line(case)
        assert native_line(case) == (line if line.startswith("0 ") else None), case.hex()
        answered += line.startswith("0 ")
    assert answered > CASES / 4, "most batches would be looked at record by record"


def test_a_batch_that_is_usual_is_split_as_record_by_record() -> None:
    dice, usual = Random(11), 0
    for _ in range(CASES):
        records = random_records(dice)
        attributes = LOG_APPEND_TIME if dice.randrange(2) else 0
        batch = memoryview(
            encode_batch(records, attributes=attributes, producer_id=3, producer_epoch=0, base_sequence=9)
        )
        header, delays = BatchHeader.parse(batch), Delays(NOW_MS, 3_600_000, NOW_MS + 20)
        fast = split(batch, header, delays)
        with patch.object(holding, "split_delays", lambda *_: None):
            slow = split(batch, header, delays)
        if slow is None or fast is None:
            assert slow is fast
            continue
        assert (fast.visible, fast.refused) == (slow.visible, slow.refused)
        assert [(*one[:3], bytes(one.body)) for one in fast.held] == [(*one[:3], bytes(one.body)) for one in slow.held]
        is_usual = not slow.refused and not any(name in OUR_OTHERS for one in records for name, _ in one.headers)
        terms = DelayTerms(LEVELS_MS, NOW_MS, 3_600_000, TIME_MS_MAX, 0, NOW_MS, None)
        found = delays_native.split_delays(batch[61:], len(records), len(records) - 1, terms)
        assert found is None or is_usual
        usual += found is not None
    assert usual > CASES / 20


@pytest.mark.parametrize("split_delays", [delays_native.split_delays, delays_twin.split_delays])
def test_numbers_that_contradict_each_other_are_refused(
    split_delays: Callable[[bytes, int, int, DelayTerms], DelayedSplit | None],
) -> None:
    body = bytes(body_of([Record(b"k", b"v")]))
    assert split_delays(body, 1, 0, TERMS) is not None
    for count, last_delta, terms in (
        (-1, 0, TERMS),
        (1, -1, TERMS),
        (1, 1 << 31, TERMS),
        (1, 0, TERMS._replace(now_ms=-1)),
        (1, 0, TERMS._replace(time_max_ms=NOW_MS - 1)),
        (1, 0, TERMS._replace(time_max_ms=2**61 + 1)),
    ):
        with pytest.raises(ValueError, match="contradict"):
            split_delays(body, count, last_delta, terms)


def test_no_batch_is_longer_than_what_it_was_made_of() -> None:
    """The room for the output is that of the body."""
    body = bytes(body_of([Record(None, None, [("bmq-deliver-after", b"1")], NOW_MS)] * 100))
    found = delays_native.split_delays(body, 100, 99, TERMS)
    assert found is not None and found.held_count == 100 and not found.kept
    assert len(found.bodies) < len(body)
