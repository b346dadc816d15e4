"""Settings under the names of the last release. Pure.

An old name works for one release. A command that reads it says which name to use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RENAMED: Final[Mapping[str, str]] = {
    "fetch.fetch_rack_told_max": "fetch.fetch_rack_redirects_max",
}
"""The name of this release by that of the last one; both in the same table."""


def with_present_names(layer: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings of one source under their present names, and the old names that it used.

    A value under the present name wins.
    """
    result = dict(layer)
    used: list[str] = []
    for old, new in RENAMED.items():
        table, _, old_name = old.rpartition(".")
        new_name = new.rpartition(".")[2]
        values = result.get(table) if table else result
        if not isinstance(values, dict) or old_name not in values:
            continue
        used.append(old)
        renamed = {name: value for name, value in values.items() if name != old_name}
        renamed.setdefault(new_name, values[old_name])
        if table:
            result[table] = renamed
        else:
            result = renamed
    return result, used


def warning_of(old: str) -> str:
    return f"setting {old} is called {RENAMED[old]} now; the old name works for this release only"
