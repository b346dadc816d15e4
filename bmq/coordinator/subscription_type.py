"""The types of share groups' subscriptions: a config of the group says which. Pure.

What they mean: bmq/coordinator/share_membership/subscription.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

SUBSCRIPTION_CONFIG: Final = "bmq.share.subscription.type"


class SubscriptionType(StrEnum):
    """Values of SUBSCRIPTION_CONFIG."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    FAILOVER = "failover"
    KEY_SHARED = "key_shared"

    @property
    def is_single_active(self) -> bool:
        """Whether each partition has one member that alone may acquire records of it."""
        return self in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)

    @property
    def is_keyed(self) -> bool:
        """Whether the records of each key are given in order, to one member at a time."""
        return self is SubscriptionType.KEY_SHARED


def subscription_of(configs: Mapping[str, str]) -> SubscriptionType:
    """The type that a group's configs name; a word of a later release counts as shared."""
    try:
        return SubscriptionType(configs.get(SUBSCRIPTION_CONFIG, "shared").strip())
    except ValueError:
        return SubscriptionType.SHARED
