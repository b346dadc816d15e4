"""Subscriptions to clients' metrics (KIP-714): what the config resources of type CLIENT_METRICS say. Pure.

A subscription is a name with up to three configs: which clients (`match`), which metrics, how often. Names, words and
codes are those of Kafka's ClientMetricsConfigs (4.4). Patterns are RE2's, as there from 4.4 on: linear time, no matter
what they and the matched text are. What only java.util.regex knows (look-around, back references) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import re2

from bmq.dataclass import dataclass
from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig, split_list, table_of
from bmq.metadata.topic_configs import VALUE_LENGTH_MAX
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

ALL_METRICS: Final = "*"
"""Among the metrics of a subscription: all there are."""
INTERVAL_DEFAULT_MS: Final = 300_000
INTERVAL_MIN_MS: Final = 100
INTERVAL_MAX_MS: Final = 3_600_000
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What `match` can ask about a client."""
_COMPILED_BYTES_MAX: Final = 512 * 1024

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = _COMPILED_BYTES_MAX
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True

CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    ConfigKey(
        "interval.ms",
        ConfigType.INT,
        str(INTERVAL_DEFAULT_MS),
        "How often a matching client sends its metrics.",
        is_dynamic=True,
    ),
    ConfigKey(
        "match",
        ConfigType.LIST,
        "",
        "Which clients: selector=pattern, all of which have to match; none: every client. Selectors are "
        f"{', '.join(SELECTORS)}.",
        is_dynamic=True,
    ),
    ConfigKey(
        "metrics",
        ConfigType.LIST,
        "",
        "Prefixes of the names of the metrics that are asked for; *: all; none: nothing.",
        is_dynamic=True,
    ),
)

Matches = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Subscription:
    """`match`: by selector, what the client's whole text has to match; empty: every client."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Matches]

    def is_for(self, client: Mapping[str, str]) -> bool:
        """Whether it is for a client with these texts, by selector. A text that is not known matches nothing."""
        return all(name in client and matches(client[name]) for name, matches in self.match.items())


def subscription_of(configs: Mapping[str, str]) -> Subscription:
    """Raises InvalidConfig, and KafkaError INVALID_REQUEST, for what `validate_client_metrics` refuses."""
    texts = {name: configs.get(name, key.default or "") for name, key in CLIENT_METRICS_CONFIGS.items()}
    interval_ms = CLIENT_METRICS_CONFIGS["interval.ms"].parse(texts["interval.ms"])
    assert isinstance(interval_ms, int)
    if not INTERVAL_MIN_MS <= interval_ms <= INTERVAL_MAX_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {INTERVAL_MIN_MS} and "
            f"{INTERVAL_MAX_MS} (1 hour)",
        )
    metrics = split_list(texts["metrics"])
    if "" in metrics:
        # An empty prefix would ask for all metrics.
        raise InvalidConfig("Configuration 'metrics' values must not be empty.")
    return Subscription(metrics, interval_ms, _matchers(split_list(texts["match"])))


def validate_client_metrics(configs: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_REQUEST or InvalidConfig when a subscription may not have these configs."""
    for name, text in configs.items():
        if name not in CLIENT_METRICS_CONFIGS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        if len(text.encode()) > VALUE_LENGTH_MAX:
            raise InvalidConfig(
                f"The configuration value of {name} cannot be added because it exceeds the maximum value size of "
                f"{VALUE_LENGTH_MAX} bytes."
            )
    subscription_of(configs)


def _matchers(patterns: tuple[str, ...]) -> dict[str, Matches]:
    """Where a selector is named twice its last pattern counts, as in Kafka."""
    found = {}
    for entry in patterns:
        # As Java splits: what is empty at the end does not count, and more than two parts are refused.
        name, *rest = entry.rstrip("=").split("=")
        if len(rest) != 1 or name.strip() not in SELECTORS:
            raise InvalidConfig(f"Illegal client matching pattern: {entry}")
        try:
            compiled = re2.compile(rest[0].strip(), _OPTIONS)
        except re2.error as error:
            raise InvalidConfig(f"Illegal client matching pattern: {entry}") from error
        found[name.strip()] = _whole(compiled)
    return found


def _whole(compiled: re2._Regexp) -> Matches:
    return lambda text: compiled.fullmatch(text) is not None
