"""The configs of a share group that its fetches follow. Pure.

Source: Kafka's GroupConfig and ShareGroupAutoOffsetResetStrategy (4.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.dataclass import dataclass

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,9})D)?(?:T(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)


class Reset(NamedTuple):
    """Where a share partition without a start offset begins. `ago_ms`: None for EARLIEST and LATEST."""

    strategy: str
    ago_ms: int | None = None


class GroupTerms(NamedTuple):
    """A share group's terms. `lock_timeout_ms`: how long an acquired record stays locked.

    `is_keyed`: the records of each key are delivered in order, to one member at a time.
    """

    reset: Reset
    is_read_committed: bool
    is_renew_enabled: bool
    lock_timeout_ms: int
    is_keyed: bool = False


@dataclass(frozen=True, slots=True)
class ShareDefaults:
    """The terms of groups without configs of their own: Kafka's `group.share.` settings of the same names."""

    record_lock_duration_ms: int = 30_000
    min_record_lock_duration_ms: int = 15_000
    max_record_lock_duration_ms: int = 60_000

    def terms(self, configs: Mapping[str, str]) -> GroupTerms:
        """The terms with the group's own configs. Values set under other bounds are capped; unknown words are ignored."""
        text = configs.get("share.record.lock.duration.ms", "").strip()
        lock_ms = int(text) if text.isascii() and text.isdigit() else self.record_lock_duration_ms
        return GroupTerms(
            reset_of(configs.get("share.auto.offset.reset", LATEST)) or Reset(LATEST),
            configs.get("share.isolation.level", "").strip().lower() == "read_committed",
            configs.get("share.renew.acknowledge.enable", "true").strip().lower() != "false",
            min(max(lock_ms, self.min_record_lock_duration_ms), self.max_record_lock_duration_ms),
            configs.get("bmq.share.subscription.type", "").strip() == "key_shared",
        )


KAFKAS_DEFAULTS: Final = ShareDefaults()


def reset_of(text: str) -> Reset | None:
    """Parse `latest`, `earliest` or `by_duration:PT1H`. None for other text, and for a duration that is not positive."""
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return Reset(word)
    if not word.startswith(_BY_DURATION):
        return None
    found = _DURATION.fullmatch(word[len(_BY_DURATION) :])
    if found is None:
        return None
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    ago_ms = ((days * 24 + hours) * 60 + minutes) * 60_000 + int(float(found["seconds"] or 0) * 1000)
    return Reset(_BY_DURATION, ago_ms) if ago_ms > 0 else None
