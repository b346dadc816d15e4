"""InitProducerIdRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class InitProducerIdRequest:
    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
