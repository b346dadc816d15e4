"""How long a proof of ownership lasts for heartbeats that are answered from memory (FENCING.md, rule 34). Decisions only.

A heartbeat that writes nothing says "go on" without a round trip to the cluster. Whoever says it may have been replaced
since its last proof, and the next owner cannot know when it said so last. So both go by one time: the former owner says
nothing that is older than it, and the next owner's sessions begin that much later. All nodes have to have the same.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

PROOF_AGE_MAX_MS: Final = 3_000
"""About a heartbeat's interval: less would have more of them wait, more would put the dead out later after a failover."""
PROOF_RENEWAL_AGE_MS: Final = 1_500
"""From then on one is made behind a heartbeat, so that where there are many none waits."""


class ProofAge(Enum):
    """Of the last proof, when a heartbeat came."""

    YOUNG = "it answers"
    FADING = "it answers, and the next one is to be made"
    OVER = "the heartbeat waits for the next one"


def proof_age(proven_ms: float, asked_ms: float) -> ProofAge:
    """`proven_ms`: when the proof was begun, -inf if there was none; `asked_ms`: when the heartbeat was here."""
    age_ms = asked_ms - proven_ms
    if age_ms < PROOF_RENEWAL_AGE_MS:
        return ProofAge.YOUNG
    return ProofAge.FADING if age_ms < PROOF_AGE_MAX_MS else ProofAge.OVER


def sessions_from_ms(loaded_ms: float) -> float:
    """From when on sessions count at an owner that has loaded its shard: a former owner's last word has run out by then."""
    return loaded_ms + PROOF_AGE_MAX_MS
