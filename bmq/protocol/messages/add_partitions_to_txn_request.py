"""AddPartitionsToTxnRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnTopic(Message):
    """A part of AddPartitionsToTxnRequest."""

    name: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnTransaction(Message):
    """A part of AddPartitionsToTxnRequest."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Sequence[AddPartitionsToTxnTopic]

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnRequest(Message):
    """The message."""

    transactions: Sequence[AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic]

    def __init__(
        self,
        *,
        transactions: Sequence[AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics


_ADD_PARTITIONS_TO_TXN_TOPIC: Final = Format(
    AddPartitionsToTxnTopic,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_ADD_PARTITIONS_TO_TXN_TRANSACTION: Final = Format(
    AddPartitionsToTxnTransaction,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("transactional_id", "string", since=4),
        FormatField("producer_id", "int64", since=4),
        FormatField("producer_epoch", "int16", since=4),
        FormatField("verify_only", "bool", since=4),
        FormatField("topics", since=4, entity=_ADD_PARTITIONS_TO_TXN_TOPIC, is_array=True),
    ),
)
FORMAT: Final = Format(
    AddPartitionsToTxnRequest,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("transactions", since=4, entity=_ADD_PARTITIONS_TO_TXN_TRANSACTION, is_array=True),
        FormatField("v3_and_below_transactional_id", "string", until=3),
        FormatField("v3_and_below_producer_id", "int64", until=3),
        FormatField("v3_and_below_producer_epoch", "int16", until=3),
        FormatField("v3_and_below_topics", until=3, entity=_ADD_PARTITIONS_TO_TXN_TOPIC, is_array=True),
    ),
)
