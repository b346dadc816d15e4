"""What is set on either side of transactions and groups, and where the default is measured."""

from __future__ import annotations

from typing import Final

from bench.loads import tuning
from bench.runner import Setting

SETTINGS: Final = (
    *tuning.SETTINGS,
    Setting(
        "librdkafka, beside both",
        "queue.buffering.max.messages",
        "10,000",
        "100,000",
        "not measured: a transaction of 100 ms would take in what lies in a queue of a second",
    ),
    Setting(
        "members of groups, of both",
        "the interval of heartbeats",
        "3 s at the most",
        "what the server says: 5 s",
        "rebalance_500_fixed_s: 3 s whatever the server says",
    ),
)
