"""DescribeConfigs: every config of a topic, a broker or its loggers, with its value, its source and its synonyms. Pure.

Resource types, sources, codes and words are those of Kafka's ConfigHelper (4.3).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from bmq.metadata.broker_configs import BROKER_CONFIGS, BROKER_SYNONYMS, HIDDEN_BY_DEFAULT, BrokerConfigs
from bmq.metadata.client_metrics_configs import CLIENT_METRICS_CONFIGS
from bmq.metadata.config_keys import ConfigKey, ConfigSource, ConfigType, ResourceType, text_of
from bmq.metadata.group_configs import GROUP_CONFIGS, broker_name
from bmq.metadata.image import MetadataImage
from bmq.metadata.topic_configs import TOPIC_CONFIGS, inherited
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.create_topics_response import CreatableTopicConfigs
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from bmq.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from bmq.protocol.topic_names import validate_name

Given = tuple[str, str, ConfigSource]
"""(name, text, source): one place where a config has a value."""
NO_OTHERS: Final[Mapping[int, BrokerConfigs]] = MappingProxyType({})
_NODE_ID: Final = re.compile(r"[+-]?[0-9]{1,10}")


def describe_configs(
    image: MetadataImage,
    request: DescribeConfigsRequest,
    broker: BrokerConfigs,
    node_id: int,
    loggers: Mapping[str, str],
    others: Mapping[int, BrokerConfigs] = NO_OTHERS,
) -> DescribeConfigsResponse:
    """`broker`: the configs of this node, `node_id`; `loggers`: levels by name; `others`: nodes it also answers for."""
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        # No names and an empty list of names both ask for everything.
        wanted = frozenset(resource.configuration_keys or ())
        try:
            found = _describe(image, resource, wanted, broker, node_id, loggers, others)
        except BmqError as error:
            result.error_code, result.error_message = error.code, str(error)
        else:
            result.configs = [config for config in found if not wanted or config.name in wanted]
            _leave_out(result.configs, request)
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(
    image: MetadataImage,
    resource: DescribeConfigsResource,
    wanted: frozenset[str],
    broker: BrokerConfigs,
    node_id: int,
    loggers: Mapping[str, str],
    others: Mapping[int, BrokerConfigs],
) -> Sequence[DescribeConfigsResourceResult]:
    """All its configs, or at least the wanted ones if there are any."""
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            validate_name(name)
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            keys = TOPIC_CONFIGS.values()
            return [_topic_config(key, topic.configs, broker) for key in keys if not wanted or key.name in wanted]
        case ResourceType.BROKER if not name:
            given = [
                (n, [(n, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)]) for n, text in broker.dynamic_default.items()
            ]
            return [_broker_config(n, places) for n, places in sorted(given)]
        case ResourceType.BROKER:
            unexpected = "Unexpected broker id, expected {} or empty string, but received {}"
            given_id = require_node(name, node_id, "Broker id must be an integer", unexpected, others)
            broker = broker if given_id == node_id else others[given_id]
            names = dict.fromkeys((*BROKER_CONFIGS, *broker.dynamic, *broker.dynamic_default))
            return [_broker_config(n, places) for n in names if (places := _broker_places(n, broker)) is not None]
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            unexpected = "Unexpected broker id, expected {} but received {}"
            require_node(name, node_id, "Broker id must be an integer", unexpected, others)
            return [
                DescribeConfigsResourceResult(
                    name=logger, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER, documentation=""
                )
                for logger, level in loggers.items()
            ]
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            configs = image.client_metrics.get(name, {})
            return [_client_metrics_config(key, configs) for key in CLIENT_METRICS_CONFIGS.values()]
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            configs = image.group_configs.get(name, {})
            return [_group_config(key, configs, broker) for key in GROUP_CONFIGS.values()]
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def require_node(name: str, node_id: int, not_integer: str, unexpected: str, others: Container[int] = NO_OTHERS) -> int:
    """The node a broker resource names: the one that answers, or one of `others`. Raises KafkaError INVALID_REQUEST."""
    if not _NODE_ID.fullmatch(name):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{not_integer}, but it is: {name}")
    given = int(name)
    if given != node_id and given not in others:
        raise KafkaError(ErrorCode.INVALID_REQUEST, unexpected.format(node_id, given))
    return given


def _topic_config(key: ConfigKey, configs: Mapping[str, str], broker: BrokerConfigs) -> DescribeConfigsResourceResult:
    own = configs.get(key.name)
    # Only the strongest synonym's own sources count, as in Kafka.
    behind = _broker_places(key.synonyms[0].name, broker) or [] if key.synonyms else []
    source = behind[0][2] if behind else ConfigSource.DEFAULT
    text = inherited(key, broker.topic_defaults)
    if own is not None:
        behind.insert(0, (key.name, own, ConfigSource.DYNAMIC_TOPIC))
        text, source = own, ConfigSource.DYNAMIC_TOPIC
    return DescribeConfigsResourceResult(
        name=key.name,
        value=text_of(key.parse(text)),
        config_source=source,
        synonyms=[_synonym(place, key) for place in behind],
        config_type=key.type,
        documentation=key.documentation,
    )


def _group_config(key: ConfigKey, configs: Mapping[str, str], broker: BrokerConfigs) -> DescribeConfigsResourceResult:
    own = configs.get(key.name)
    behind = broker_name(key.name)
    default = (key.name, key.default or "", ConfigSource.DEFAULT)
    places = [default] if behind is None else _broker_places(behind, broker) or []
    if own is not None:
        places.insert(0, (key.name, own, ConfigSource.DYNAMIC_GROUP))
    _, text, source = places[0] if places else default
    return DescribeConfigsResourceResult(
        name=key.name,
        value=text_of(key.parse(text)),
        config_source=source,
        synonyms=[_synonym(place, key) for place in places],
        config_type=key.type,
        documentation=key.documentation,
    )


def _client_metrics_config(key: ConfigKey, configs: Mapping[str, str]) -> DescribeConfigsResourceResult:
    own = configs.get(key.name)
    # As in Kafka, a default is shown without synonyms.
    places = [] if own is None else [(key.name, own, ConfigSource.DYNAMIC_CLIENT_METRICS)]
    return DescribeConfigsResourceResult(
        name=key.name,
        value=text_of(key.parse((key.default or "") if own is None else own)),
        config_source=places[0][2] if places else ConfigSource.DEFAULT,
        synonyms=[_synonym(place, key) for place in places],
        config_type=key.type,
        documentation=key.documentation,
    )


def _broker_places(name: str, broker: BrokerConfigs) -> list[Given] | None:
    """The places where a broker config has a value, its own name first. None: it is not set, and shown only if set."""
    own = [(name, text, source) for source, text in broker.sources_of(name)]
    if name in HIDDEN_BY_DEFAULT and (not own or own[0][2] is ConfigSource.DEFAULT):
        return None
    if not own:
        # As in Kafka: a config that is not set under its own name is shown without its fallbacks.
        return []
    others = (other for other in BROKER_SYNONYMS.get(name, ()) if other != name)
    return own + [(other, text, source) for other in others for source, text in broker.sources_of(other)]


def _broker_config(name: str, places: Sequence[Given]) -> DescribeConfigsResourceResult:
    key = BROKER_CONFIGS.get(name)
    if key is None:
        # Kafka accepts unknown configs, for plug-ins, and shows only that they are set.
        key = ConfigKey(name, ConfigType.PASSWORD, None, "")
    value = places[0][1] if places else None
    return DescribeConfigsResourceResult(
        name=name,
        value=None if value is None or key.is_sensitive else text_of(key.parse(value)),
        read_only=not key.is_dynamic,
        config_source=places[0][2] if places else ConfigSource.DEFAULT,
        is_sensitive=key.is_sensitive,
        synonyms=[_synonym(place, key) for place in places],
        config_type=ConfigType.UNKNOWN if name not in BROKER_CONFIGS else key.type,
        documentation=key.documentation,
    )


def _synonym(place: Given, key: ConfigKey) -> DescribeConfigsSynonym:
    name, text, source = place
    return DescribeConfigsSynonym(name=name, value=None if key.is_sensitive else text.strip(), source=source)


def _leave_out(configs: Iterable[DescribeConfigsResourceResult], request: DescribeConfigsRequest) -> None:
    for config in configs:
        if not request.include_synonyms:
            config.synonyms = ()
        if not request.include_documentation:
            config.documentation = None


def created_topic_configs(configs: Mapping[str, str], broker: BrokerConfigs) -> list[CreatableTopicConfigs]:
    """All configs of a topic being created, for CreateTopicsResponse (KIP-525)."""
    described = (_topic_config(key, configs, broker) for key in TOPIC_CONFIGS.values())
    return [
        CreatableTopicConfigs(
            name=config.name, value=config.value, config_source=config.config_source, is_sensitive=config.is_sensitive
        )
        for config in described
    ]
