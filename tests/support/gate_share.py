"""A fixed share of many cases of one kind stays in the gate; the campaign runs the others.

    @few_in_gate("version", VERSIONS, every=5, others=in_campaign)

`in_campaign` is the marker of a part of the campaign, and stands in the file of the tests, as all markers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

_CASE: Final = type(pytest.param())


def few_in_gate(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    every: int,
    others: pytest.MarkDecorator,
    ids: Callable[[Any], str | None] | None = None,
) -> pytest.MarkDecorator:
    """`parametrize`, with the marker `others` at all cases but the first, the last and each `every`-th.

    A case's name is the same with and without the marker. An odd `every` meets both of kinds that alternate.
    """
    if every < 2:
        raise ValueError("each case would stay")
    given = list(cases)
    is_one = isinstance(names, str) and "," not in names

    def marked(number: int, case: Any) -> Any:
        if number % every == 0 or number == len(given) - 1:
            return case
        if isinstance(case, _CASE):
            return pytest.param(*case.values, marks=[*case.marks, others], id=case.id)
        return pytest.param(case, marks=others) if is_one else pytest.param(*case, marks=others)

    return pytest.mark.parametrize(names, [marked(number, case) for number, case in enumerate(given)], ids=ids)
