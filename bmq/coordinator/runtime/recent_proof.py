"""How long a proof of ownership lasts for heartbeats answered from memory (FENCING.md, rule 34). Decisions only.

A heartbeat that writes nothing is answered without a round trip to the cluster. The node that answers may have been
replaced since its last proof, and the next owner cannot know when it last answered. So both use one limit: the former
owner does not answer with a proof older than that, and the next owner starts sessions that much later. All nodes must
have the same limit.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

PROOF_AGE_MAX_MS: Final = 3_000
"""About one heartbeat interval: with less, more heartbeats wait; with more, dead members expire later."""
PROOF_RENEWAL_AGE_MS: Final = 1_500
"""At this age a heartbeat starts a new proof in the background, so that under many heartbeats none has to wait."""


class ProofAge(Enum):
    """State of the last proof when a heartbeat came."""

    YOUNG = "it answers"
    FADING = "it answers, and the next one is to be made"
    OVER = "the heartbeat waits for the next one"


def proof_age(proven_ms: float, asked_ms: float) -> ProofAge:
    """`proven_ms`: when the last proof began, -inf if there was none; `asked_ms`: when the heartbeat came.

    Both by `Clock.elapsed_s`: to a process whose clock stood still while its machine slept, an old proof looks young.
    """
    age_ms = asked_ms - proven_ms
    if age_ms < PROOF_RENEWAL_AGE_MS:
        return ProofAge.YOUNG
    return ProofAge.FADING if age_ms < PROOF_AGE_MAX_MS else ProofAge.OVER


def sessions_from_ms(loaded_ms: float) -> float:
    """When a new owner's sessions start: a former owner's last proof has expired by then."""
    return loaded_ms + PROOF_AGE_MAX_MS
