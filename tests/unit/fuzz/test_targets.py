"""The fuzz targets find nothing in their seeds, in what was once found, and in some hundred neighbours of these."""

from __future__ import annotations

import os
from random import Random
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.fuzz.mutation import changed
from tests.fuzz.target import NAMES, kept_inputs, target_of

pytestmark = pytest.mark.unit

INPUTS: Final = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") in ("fresh", "deep") else 200
SLOW: Final = frozenset({"rest", "share_requests"})
SLOW_INPUTS: Final = INPUTS // 7
"""Of targets that start a server for each input."""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found(name: str) -> None:
    target, dice = target_of(name), Random(31)
    known = [*target.seeds(), *kept_inputs(name), b"", b"\0"]
    with capture_logs():
        taken = sum(target.check(data) for data in known)
        for _ in range(SLOW_INPUTS if name in SLOW else INPUTS):
            data = dice.choice(known)
            if target.mutate is not None and dice.randrange(2):
                target.check(target.mutate(data, dice))
            else:
                target.check(changed(data, dice, known))
    assert taken > len(known) / 12, "nearly all seeds are refused: they would not lead far"


@pytest.mark.parametrize("name", NAMES)
def test_a_mutation_repeats_from_its_dice(name: str) -> None:
    target = target_of(name)
    seed = next(iter(target.seeds()))
    if target.mutate is None:
        assert name == "frames"
        return
    drawn = [[target.mutate(seed, Random(number)) for number in range(20)] for _ in range(2)]
    assert drawn[0] == drawn[1] and len(set(drawn[0])) > 1
