"""Which partitions a server or a cluster serves: those that tell their end, as their owner has started them."""

from __future__ import annotations

from testing.wire import LATEST_TIMESTAMP, NONE
from tests.soak.logins import ANYBODY, Logins


def unserved(
    topic: str, partitions: int, port: int, host: str = "127.0.0.1", logins: Logins = ANYBODY
) -> dict[int, int | None]:
    """The partitions that do not tell their end, each with its error code; None: there is no answer."""
    try:
        with logins.wire(port, host) as client:
            answers = client.list_offsets(topic, range(partitions), LATEST_TIMESTAMP)
    except OSError:
        return dict.fromkeys(range(partitions))
    return {partition: code for partition, (code, _) in answers.items() if code != NONE}
