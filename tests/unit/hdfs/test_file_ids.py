"""Ids of new files show that HDFS went back to an older state, and no order of calls and answers does."""

from __future__ import annotations

import pytest

from bmq.hdfs.errors import NamespaceWentBack
from bmq.hdfs.file_ids import FileIds

pytestmark = pytest.mark.unit


def test_ids_that_grow_prove_nothing_however_calls_overtake_each_other() -> None:
    ids = FileIds()
    first, second = ids.highest, ids.highest
    ids.given(17, above=second, path="/b")
    ids.given(16, above=first, path="/a")  # it began before the other one ended
    assert ids.highest == 17 and ids.error is None
    ids.given(18, above=ids.highest, path="/c")
    ids.require_present()


@pytest.mark.parametrize("given", [17, 16])
def test_an_id_that_was_passed_before_the_call_began_is_of_an_older_state(given: int) -> None:
    ids = FileIds()
    told: list[str] = []
    ids.went_back = lambda: told.append("told")
    ids.given(17, above=ids.highest, path="/a")
    with pytest.raises(NamespaceWentBack, match=f"/b was given the file id {given}, after a file with the id 17"):
        ids.given(given, above=ids.highest, path="/b")
    for _ in range(2):
        with pytest.raises(NamespaceWentBack, match="/b was given"):
            ids.require_present()
    ids.note("something else")
    with pytest.raises(NamespaceWentBack, match="/b was given"):
        ids.given(30, above=ids.highest, path="/c")
    assert told == ["told"]
