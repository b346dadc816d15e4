"""Which differences the reviewed list explains."""

from __future__ import annotations

import pytest

from tests.tools_table.compare import ComparedStep, Difference
from tests.tools_table.intended import Intended, reasons_for

pytestmark = pytest.mark.campaign("unit")

WORDS = Intended("words", "They say the same.", ("kafka-*",), ("list",), bmq=("hello",), kafka=("good day",))
SIZE = Intended("size", "Another default.", ("kafka-groups",), bmq=("size=1$",), kafka=("size=2$",))
NOT_SERVED = Intended("not served", "It is not served.", ("kafka-groups",), refusal="does not support X")
ENTRIES = (WORDS, SIZE, NOT_SERVED)


def reasons(difference: Difference, case: str = "list", printed: tuple[str, ...] = ()) -> set[str] | None:
    step = ComparedStep("kafka-groups", frozenset(), (difference,), printed)
    return reasons_for("kafka-groups", case, step, difference, ENTRIES)


def test_every_line_needs_an_entry() -> None:
    assert reasons(Difference(("hello you", "size=1"), ("good day",))) == {"words", "size"}
    assert reasons(Difference(("hello you", "size=3"), ("good day",))) is None
    assert reasons(Difference(("good day",), ("hello you",))) is None


def test_an_entry_is_for_its_cases_alone() -> None:
    assert reasons(Difference(("hello",), ()), case="describe") is None
    assert reasons(Difference(("size=1",), ("size=2",)), case="describe") == {"size"}


def test_what_is_refused_explains_the_whole_command() -> None:
    difference = Difference(("exit code 1",), ("exit code 0", "anything"))
    assert reasons(difference, printed=("exit code 1", "Error: does not support X")) == {"not served"}
    assert reasons(difference, printed=("exit code 1", "Error: does not support Y")) is None
