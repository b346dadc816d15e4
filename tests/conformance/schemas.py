"""Every version of every client-facing message: kio's schemas (Kafka 4.3), and what tools/later_*.py add for 4.4.

Apart from bmq's own codec, so that a mistake there cannot hide itself.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from kio.schema.index import api_key_map

from testing.processes import REPOSITORY

# The generator's modules import each other by their bare names.
sys.path.insert(0, str(REPOSITORY / "tools"))

from generate_messages import fields_of  # type: ignore[import-not-found]
from later_messages import LATER_MESSAGES  # type: ignore[import-not-found]
from schema_fields import WireField  # type: ignore[import-not-found]

Kind = Literal["request", "response"]
API_VERSIONS: Final = 18

CLIENT_APIS: Final[tuple[int, ...]] = (
    *(0, 1, 2, 3, *range(8, 52)),
    *(55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72, 74, 75, *range(76, 82), *range(88, 94)),
)
"""What clients send (Java's Admin among them); the rest of Kafka's keys is between brokers and controllers."""


@dataclass(frozen=True, slots=True)
class Schema:
    """One class of a message in one version. `fields` in wire order, tagged ones among them."""

    name: str
    version: int
    flexible: bool
    fields: tuple[WireField, ...]
    entities: dict[str, Schema]
    """By the field's name: what an element (or the one struct) of a field looks like."""


def api_name(api_key: int) -> str:
    """As Kafka writes it: "OffsetForLeaderEpoch". Raises KeyError."""
    package = LATER_MESSAGES[api_key][0] if api_key in LATER_MESSAGES else api_key_map[api_key]
    return "".join(part.capitalize() for part in package.split("_"))


@cache
def schema_versions(api_key: int) -> range:
    """The versions kio knows, without those of LATER_FIELDS."""
    if api_key in LATER_MESSAGES:
        return range(1)
    package = importlib.import_module(f"kio.schema.{api_key_map[api_key]}")
    names = [module.name[1:] for module in pkgutil.iter_modules(package.__path__)]
    found = sorted(int(name) for name in names if name.isdecimal())
    return range(found[0], found[-1] + 1)


@cache
def schema(api_key: int, version: int, kind: Kind) -> Schema:
    """Versions below or above kio's have the form of its nearest, with LATER_FIELDS in it."""
    title = f"{api_name(api_key)}{kind.capitalize()}"
    if api_key in LATER_MESSAGES:
        return _of(LATER_MESSAGES[api_key][1][kind], title, version, flexible=True)
    known = schema_versions(api_key)
    nearest = min(max(version, known.start), known.stop - 1)
    module = importlib.import_module(f"kio.schema.{api_key_map[api_key]}.v{nearest}.{kind}")
    entity = getattr(module, title)
    return _of(entity, title, version, flexible=entity.__flexible__)


def _of(entity: type, title: str, version: int, *, flexible: bool) -> Schema:
    place = title if entity.__name__ == title else f"{title}.{entity.__name__}"
    fields = tuple(fields_of(entity, (place, version)))
    entities = {
        field.name: _of(field.entity, title, version, flexible=flexible) for field in fields if field.entity is not None
    }
    return Schema(entity.__name__, version, flexible, fields, entities)
