"""Examples of the default profile do not follow from which modules are loaded."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.support.known_examples import leave_out_constants_of_modules

pytestmark = pytest.mark.unit

MODULE = "full_of_constants"


def examples() -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []

    @settings(derandomize=True, database=None, max_examples=100)
    @given(st.text(), st.integers())
    def collect(text: str, number: int) -> None:
        seen.append((text, number))

    collect()
    return seen


def test_one_more_module_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_get_local_constants", providers._get_local_constants)  # is put back afterwards
    leave_out_constants_of_modules()
    known = examples()
    assert len(known) >= 100
    (tmp_path / f"{MODULE}.py").write_text("".join(f"{n} == 'text {n}'\n" for n in range(1_000, 1_100)))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(MODULE)
    try:
        assert examples() == known
    finally:
        del sys.modules[MODULE]


def test_a_profile_that_draws_nothing_takes_no_constants() -> None:
    assert settings().derandomize == (len(providers._get_local_constants()) == 0)
