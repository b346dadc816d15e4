"""DescribeTransactionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeTransactionsRequest:
    transactional_ids: Sequence[str] = ()


FORMAT: Final = Format(
    DescribeTransactionsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("transactional_ids", "string", is_array=True),),
)
