"""Two normalized answers, field by field. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MISSING: Final = "<missing>"

# By the first of these an element of an array is named in paths, and found in the other server's answer.
_KEYS: Final = (
    "api_key",
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "resource_name",
    "key",
    "partition_index",
    "partition",
    "index",
    "node_id",
    "broker_id",
    "member_id",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """`path`: the fields' names and the elements' keys, joined by "/"."""

    path: str
    bmq: Any
    kafka: Any


def differences(bmq: Any, kafka: Any) -> list[Difference]:
    """In the order of the fields; empty when both say the same."""
    return list(_walk("", bmq, kafka))


def _walk(path: str, bmq: Any, kafka: Any) -> Iterator[Difference]:
    if isinstance(bmq, Mapping) and isinstance(kafka, Mapping) and ("outcome" in bmq) == ("outcome" in kafka):
        for name in dict.fromkeys((*bmq, *kafka)):
            yield from _walk(_join(path, name), bmq.get(name, MISSING), kafka.get(name, MISSING))
    elif isinstance(bmq, list) and isinstance(kafka, list):
        ours, theirs = _keyed(bmq, kafka)
        for key in dict.fromkeys((*ours, *theirs)):
            yield from _walk(_join(path, key), ours.get(key, MISSING), theirs.get(key, MISSING))
    elif bmq != kafka:
        yield Difference(path, bmq, kafka)


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _keyed(bmq: Sequence[Any], kafka: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    for key in _KEYS:
        sides = []
        for elements in (bmq, kafka):
            if all(isinstance(one, Mapping) and key in one for one in elements):
                by_key = {str(one[key]): one for one in elements}
                if len(by_key) == len(elements):
                    sides.append(by_key)
        if len(sides) == 2:
            return sides[0], sides[1]
    ours, theirs = ({str(index): one for index, one in enumerate(side)} for side in (bmq, kafka))
    return ours, theirs
