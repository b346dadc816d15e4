"""Hypothesis' examples follow from the test alone.

Hypothesis takes some values from the constants in the source of all loaded modules that are not installed packages, which are
those of `bmq` and of the tests. So `derandomize` is not enough for the same examples each time: they change with the files
of the run, with what xdist gives to a worker before, and with any new constant anywhere. Reading and sorting out some
ten thousand constants takes a processor besides. A search may use them: profiles `fresh` and `deep` do.
"""

from __future__ import annotations

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants


def leave_out_constants_of_modules() -> None:
    """For the rest of this process. Hypothesis has no setting for it; a version without such a function is an error here."""
    nothing = Constants()
    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", lambda: nothing)
