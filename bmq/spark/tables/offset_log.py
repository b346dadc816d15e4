"""Parses a file of a checkpoint's offset log: the end of a batch. Decisions only.

It has one line of version, one of metadata, and one for each source. The Kafka connector's line is JSON: offsets by
topic and partition. That of `format("bmq")` has the same under `offsets`, beside a version number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

from bmq.spark.tables.errors import TableMismatch

_VERSION: Final = "v1"

Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""By topic and partition: the first offset after a batch."""


def end_offsets(text: str, where: str) -> Offsets:
    """The offsets of the log file's only source. Raises TableMismatch."""
    version, _, *sources = [*text.splitlines(), "", ""]
    sources = [line for line in sources if line]
    if version != _VERSION or len(sources) != 1:
        raise TableMismatch(f"{where} is no checkpoint of a job with one source, or of another version of Spark")
    try:
        form = json.loads(sources[0])
        if isinstance(form.get("version"), int):
            form = form["offsets"]
        return {topic: {int(p): int(offset) for p, offset in parts.items()} for topic, parts in form.items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        raise TableMismatch(f"{where} is no checkpoint of a topic: {sources[0][:200]}") from None
