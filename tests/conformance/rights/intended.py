"""Differences between bmq and Kafka that only users with few rights see: the reviewed list, each with its reason."""

from __future__ import annotations

from typing import Final

from bmq.protocol.apis import ApiKey
from tests.conformance.intended import Intended

RIGHTS_INTENDED: Final[tuple[Intended, ...]] = (
    Intended(
        "The id of a topic that may not be described",
        "Kafka tells it beside the refusal, and so that there is such a topic. bmq does not say whether there is one.",
        frozenset({ApiKey.ALTER_SHARE_GROUP_OFFSETS}),
        paths=("responses/*/topic_id",),
        bmq=("<no id>",),
    ),
)
