"""The values of the Helm chart: its defaults, the examples in `ci`, and the schema that they have to follow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs
import yaml

from testing.processes import REPOSITORY

CHART: Final = REPOSITORY / "deploy" / "helm" / "bmq"
EXAMPLES: Final = sorted((CHART / "ci").glob("*-values.yaml"))
DEFAULTS: Final[dict[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text())


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """As Helm merges: tables by name, all else as it is above."""
    found = dict(below)
    for name, value in above.items():
        old = found.get(name)
        found[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def problems(values: Mapping[str, Any]) -> list[str]:
    """What the schema says of the values over the defaults."""
    return [error.message for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(merged(DEFAULTS, values))]


def paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of tables and of what is in them."""
    for name, value in values.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{name}.")
