"""AlterConfigs and IncrementalAlterConfigs: decides which changes are allowed and which records they take. Pure.

Every resource succeeds or fails as a whole and by itself. Codes and words are those of Kafka's ConfigAdminManager,
ConfigurationControlManager and DynamicBrokerConfig (4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bmq.controller.config_describe import NO_OTHERS, require_node
from bmq.controller.decision import Deciding, Decision
from bmq.controller.views import require_view_unchanged
from bmq.metadata.broker_configs import BROKER_CONFIGS, BrokerConfigs, require_bounds
from bmq.metadata.client_metrics_configs import CLIENT_METRICS_CONFIGS, validate_client_metrics
from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig, Operation, ResourceType
from bmq.metadata.group_configs import GROUP_CONFIGS, check_lanes, validate_group
from bmq.metadata.image import MetadataImage
from bmq.metadata.topic_configs import (
    CONFIGS_PER_RESOURCE_MAX,
    TOPIC_CONFIGS,
    VALUE_LENGTH_MAX,
    effective_values,
    inherited,
    validate,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResourceResponse as FullResult
from bmq.protocol.messages.alter_configs_response import AlterConfigsResponse
from bmq.protocol.messages.incremental_alter_configs_request import AlterableConfig, IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from bmq.protocol.metadata_records import ConfigRecord, MetadataRecord
from bmq.protocol.topic_names import validate_name
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

RECORDS_PER_REQUEST_MAX = 10_000
_RESOURCE_COST = 10
CLIENT_METRICS_MAX = 1_000
"""Subscriptions to clients' metrics: every node compares each client with each of them."""


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


class _NamedConfig(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...


@Deciding
def decide_incremental_alter_configs(
    image: MetadataImage,
    request: IncrementalAlterConfigsRequest,
    broker: BrokerConfigs,
    node_id: int,
    others: Mapping[int, BrokerConfigs] = NO_OTHERS,
) -> InTurns[Decision[IncrementalAlterConfigsResponse]]:
    """Single changes on top of the set configs.

    `broker`: the configs of this node, `node_id`; `others`: of other nodes.
    """
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results, records = [], list[MetadataRecord]()
    pace = Pace()
    for resource in request.resources:
        if pace.is_over(_RESOURCE_COST + len(resource.configs)):
            yield
        result = AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            current, broker_of = _current(image, resource, counts, broker, node_id, others)
            _require_unique(resource.configs)
            key_of = _keys(resource.resource_type)
            target = dict(current)
            for config in resource.configs:
                _apply(target, config, key_of(config.name), resource.resource_type, broker_of)
            records += _changes(resource, current, target, broker_of, len(records))
        except BmqError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return Decision(IncrementalAlterConfigsResponse(responses=results), () if request.validate_only else records)


@Deciding
def decide_alter_configs(
    image: MetadataImage,
    request: AlterConfigsRequest,
    broker: BrokerConfigs,
    node_id: int,
    others: Mapping[int, BrokerConfigs] = NO_OTHERS,
) -> InTurns[Decision[AlterConfigsResponse]]:
    """All configs of a resource at once: configs that are not named go back to their defaults."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results, records = [], list[MetadataRecord]()
    pace = Pace()
    for resource in request.resources:
        if pace.is_over(_RESOURCE_COST + len(resource.configs)):
            yield
        result = FullResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if resource.resource_type == ResourceType.BROKER_LOGGER:
                raise _unknown_type(resource)
            current, broker_of = _current(image, resource, counts, broker, node_id, others)
            _require_unique(resource.configs)
            target = {config.name: _required(config) for config in resource.configs}
            records += _changes(resource, current, target, broker_of, len(records))
        except BmqError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return Decision(AlterConfigsResponse(responses=results), () if request.validate_only else records)


# --- which resource


def _current(
    image: MetadataImage,
    resource: _Resource,
    counts: Mapping[tuple[int, str], int],
    broker: BrokerConfigs,
    node_id: int,
    others: Mapping[int, BrokerConfigs],
) -> tuple[Mapping[str, str], BrokerConfigs]:
    """The configs set for the resource now, and the broker configs behind it.

    Raises KafkaError for a resource that cannot be altered.
    """
    resource_type, name = resource.resource_type, resource.resource_name
    if counts[resource_type, name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    match resource_type:
        case ResourceType.TOPIC:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
            validate_name(name)
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            return topic.configs, broker
        case ResourceType.BROKER if not name:
            return image.broker_configs.get(name, {}), broker
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            is_logger = resource_type == ResourceType.BROKER_LOGGER
            unexpected = "Unexpected broker id, expected {}, but received {}"
            if is_logger:
                unexpected = "Unexpected node id. Expected {}, but received {}"
            given = require_node(name, node_id, "Node id must be an integer", unexpected, others)
            if is_logger:
                # Loggers are a process's own: a node answers for its own ones, and Kafka's clients ask there.
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"The levels of loggers are altered at their node: ask node {given}"
                )
            return image.broker_configs.get(str(given), {}), broker if given == node_id else others[given]
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            return image.group_configs.get(name, {}), broker
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
            if name not in image.client_metrics and len(image.client_metrics) >= CLIENT_METRICS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"there are {len(image.client_metrics)} subscriptions, {CLIENT_METRICS_MAX} are allowed",
                )
            return image.client_metrics.get(name, {}), broker
    raise _unknown_type(resource)


def _unknown_type(resource: _Resource) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def _require_unique(configs: Sequence[_NamedConfig]) -> None:
    if len(configs) > CONFIGS_PER_RESOURCE_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{len(configs)} configs for one resource, {CONFIGS_PER_RESOURCE_MAX} are allowed",
        )
    if len({config.name for config in configs}) != len(configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _keys(resource_type: int) -> Callable[[str], ConfigKey | None]:
    tables = {
        ResourceType.TOPIC: TOPIC_CONFIGS,
        ResourceType.GROUP: GROUP_CONFIGS,
        ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
    }
    return tables.get(ResourceType(resource_type), BROKER_CONFIGS).get


# --- which value


def _required(config: _NamedConfig) -> str:
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {config.name}")
    return config.value


def _operation(config: AlterableConfig) -> Operation:
    try:
        return Operation(config.config_operation)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation} for config {config.name}"
        ) from error


def _apply(
    target: dict[str, str], config: AlterableConfig, key: ConfigKey | None, resource_type: int, broker: BrokerConfigs
) -> None:
    operation = _operation(config)
    if operation is Operation.DELETE:
        target.pop(config.name, None)
        return
    text = _required(config)
    if operation is Operation.SET:
        target[config.name] = text
        return
    if key is None or key.type is not ConfigType.LIST:
        if resource_type == ResourceType.BROKER:
            # Kafka's brokers look at these before its controller does.
            raise InvalidConfig(f"Config value {operation.name.lower()} is not allowed for config key: {config.name}")
        raise InvalidConfig(f"Can't {operation.name} to key {config.name} because its type is not LIST.")
    # A list change starts from the value in force, not only from the one that was set.
    start = target.get(config.name)
    if start is None:
        is_topic = resource_type == ResourceType.TOPIC
        start = inherited(key, broker.topic_defaults) if is_topic else broker.value_of(key.name) or ""
    items = [item for item in start.split(",") if item]
    for item in _items_of(text):
        if operation is Operation.APPEND and item not in items:
            items.append(item)
        elif operation is Operation.SUBTRACT and item in items:
            items.remove(item)
    target[config.name] = ",".join(items)


def _items_of(text: str) -> list[str]:
    """What Java's String.split(",") makes of it: nothing at the end is no item, but text without a comma is always one."""
    items = text.split(",")
    if len(items) > 1:
        while items and not items[-1]:
            items.pop()
    return items


def _changes(
    resource: _Resource,
    current: Mapping[str, str],
    target: Mapping[str, str],
    broker: BrokerConfigs,
    records_before: int,
) -> list[MetadataRecord]:
    """Records that lead from `current` to `target`. Raises when the resource may not have `target`."""
    changed = [name for name in {**current, **target} if current.get(name) != target.get(name)]
    if resource.resource_type == ResourceType.TOPIC:
        require_view_unchanged(changed)
        validate(target, broker.topic_defaults, resource.resource_name)
    elif resource.resource_type == ResourceType.GROUP:
        validate_group(target, broker)
        check_lanes(resource.resource_name, target)
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        validate_client_metrics(target)
    else:
        _validate_broker(resource.resource_name, changed, target, broker)
    if records_before + len(changed) > RECORDS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"More than {RECORDS_PER_REQUEST_MAX} configs are changed by one request"
        )
    name = resource.resource_name
    if resource.resource_type == ResourceType.BROKER and name:
        name = str(int(name))
    return [
        ConfigRecord(resource_type=resource.resource_type, resource_name=name, name=config, value=target.get(config))
        for config in changed
    ]


def _validate_broker(
    resource_name: str,
    changed: Sequence[str],
    target: Mapping[str, str],
    broker: BrokerConfigs,
) -> None:
    fixed = [name for name in changed if name in BROKER_CONFIGS and not BROKER_CONFIGS[name].is_dynamic]
    if fixed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]"
        )
    if len(target) > CONFIGS_PER_RESOURCE_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"{len(target)} configs for one broker, {CONFIGS_PER_RESOURCE_MAX} are allowed"
        )
    try:
        for name, text in target.items():
            if len(text.encode()) > VALUE_LENGTH_MAX:
                raise InvalidConfig(
                    f"The configuration value of {name} cannot be added because it exceeds the maximum value size of "
                    f"{VALUE_LENGTH_MAX} bytes."
                )
            if name in BROKER_CONFIGS:
                BROKER_CONFIGS[name].parse(text)
        # A value that topics inherit has to be valid as a topic config, wherever it is set.
        dynamic, default = (target, broker.dynamic_default) if resource_name else (broker.dynamic, target)
        wanted = BrokerConfigs(dynamic, default, broker.static)
        effective_values({}, wanted.topic_defaults)
        require_bounds(wanted)
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
