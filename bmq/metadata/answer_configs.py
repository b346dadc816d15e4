"""The topic config of answers to checks of open transactions. Pure."""

from __future__ import annotations

from typing import Final

from bmq.metadata.config_keys import ConfigKey, ConfigType

ANSWER_ENABLE: Final = "bmq.transaction.answer.enable"
ANSWER_TOPIC_CONFIG: Final = ConfigKey(
    ANSWER_ENABLE,
    ConfigType.BOOLEAN,
    "false",
    "Records that are produced here answer checks of open transactions: they have the headers of the check's record and "
    "bmq-transaction-answer, commit or rollback. They are acknowledged once that is durable, and are not stored.",
)
