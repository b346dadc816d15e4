"""Where a share partition begins (KIP-932): the values of share.auto.offset.reset. Pure.

Source: Kafka's ShareGroupAutoOffsetResetStrategy (4.3).
"""

from __future__ import annotations

import re
from typing import Final

from bmq.metadata.config_keys import InvalidConfig, Value

_DURATION: Final = re.compile(
    r"by_duration:P(?=.)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)


def reset_strategy(name: str, value: Value) -> None:
    """Raises InvalidConfig unless it is latest, earliest, or by_duration: with a positive ISO-8601 duration."""
    text = str(value).strip()
    if text.lower() in ("latest", "earliest"):
        return
    found = _DURATION.fullmatch(text)
    if found is None or not any(float(part or 0) for part in found.groups()):
        raise InvalidConfig(
            f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. The value "
            "must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
