"""The size of the next segment, for stores where an open one reserves space for its full length. Decisions only.

HDFS counts an open block at its full size on every DataNode that has it, however little was written. So a partition
begins with a small segment, and the next one is as large as the recent write rate would fill in `FILL_S`.
"""

from __future__ import annotations

from typing import Final

from bmq.log.config import LogConfig

FIRST_BYTES: Final = 8 * 1024 * 1024
FILL_S: Final = 600.0  # a busy partition rolls every ten minutes, or when it has segment.bytes
WRITTEN_S_MIN: Final = 0.001  # assumed for a segment that was filled in one turn of the loop


def first_segment_bytes(config: LogConfig, first_bytes: int) -> int:
    """The size of a partition's first segment, and of one opened after the store had no room."""
    return min(config.segment_bytes, max(first_bytes, config.max_message_bytes))  # the longest batch fits


def next_segment_bytes(config: LogConfig, first_bytes: int, written_bytes: int, written_s: float) -> int:
    """The size after a segment that got `written_bytes` in `written_s`; never more than segment.bytes."""
    wanted = written_bytes / max(written_s, WRITTEN_S_MIN) * FILL_S
    return int(min(config.segment_bytes, max(wanted, first_segment_bytes(config, first_bytes))))
