"""Creating and deleting topics: decides what is allowed and which records it takes. Pure.

Every topic of a request succeeds or fails by itself. Checks, their order, codes and words are those of Kafka's
ReplicationControlManager and ControllerApis (4.3), as far as a client can see them.

A topic's directories are not made here: a partition's owner makes them when it claims the partition, and may do so
again after a crash. So a topic exists as soon as its records do, and an unused partition costs the store nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from bmq.controller.config_describe import created_topic_configs
from bmq.controller.decision import Deciding, Decision
from bmq.controller.mutation_quotas import uncharged
from bmq.controller.replica_placement import new_partition, owner_nodes, place
from bmq.controller.views import base_of, require_unviewed
from bmq.dataclass import dataclass
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.image import METADATA_TOPIC_NAME, MetadataImage, Node, PartitionImage
from bmq.metadata.state import partition_record
from bmq.metadata.topic_configs import CONFIGS_PER_RESOURCE_MAX, validate
from bmq.metadata.view_configs import is_view
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from bmq.protocol.metadata_records import (
    RESOURCE_TYPE_TOPIC,
    ConfigRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from bmq.protocol.topic_names import collision_key, validate_name
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

_CREATION_COST: Final = 40
"""Of describing a topic's configs: times that of looking at a name."""
NO_VALUE: Final = -1
"""A count in a request that leaves the choice to the server."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Limits of one request and of the whole cluster."""

    partitions_per_request_max: int = 10_000
    partitions_max: int = 200_000


@Deciding
def decide_create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    broker: BrokerConfigs,
    limits: TopicLimits,
    new_topic_ids: Sequence[UUID],
    charge: Callable[[int], None] = uncharged,
) -> InTurns[Decision[CreateTopicsResponse]]:
    """`new_topic_ids`: one for each topic of the request, never used before. `charge`: see mutation_quotas."""
    names = Counter(topic.name for topic in request.topics)
    results, records = [], list[MetadataRecord]()
    # Two colliding names both contain a dot or an underscore, so most requests need not look at all topics.
    can_collide = any("." in name or "_" in name for name in names)
    collisions = {collision_key(name): name for name in image.topics} if can_collide else {}
    wanted = sum(_partitions_wanted(topic) for topic in request.topics)
    room = limits.partitions_max - image.partition_count
    owners = owner_nodes(image.nodes)
    seen = set[str]()
    views_made = Counter[str]()
    pace = Pace()
    for topic, topic_id in zip(request.topics, new_topic_ids, strict=True):
        if pace.is_over():
            yield
        if topic.name in seen:
            continue
        seen.add(topic.name)
        try:
            if names[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _require_new_name(topic.name, image, collisions)
            if wanted > limits.partitions_per_request_max:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Excessively large number of partitions per request: {wanted}, "
                    f"{limits.partitions_per_request_max} are allowed.",
                )
            configs = _configs_of(topic, broker)
            base = base_of(image, topic, configs, views_made) if is_view(configs) else None
            partitions = _partitions_of(topic, topic_id, owners, broker) if base is None else base.partitions
            own = partitions if base is None else ()
            if len(own) > room:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Topic '{topic.name}' with {len(own)} partition(s) would bring the cluster above "
                    f"{limits.partitions_max} partitions.",
                )
            charge(max(len(own), 1))
        except BmqError as error:
            results.append(CreatableTopicResult(name=topic.name, error_code=error.code, error_message=str(error)))
            continue
        if pace.is_over(_CREATION_COST + len(partitions)):
            yield
        room -= len(own)
        if base is not None:
            views_made[base.name] += 1
        collisions[collision_key(topic.name)] = topic.name
        records += topic_records(topic.name, topic_id, configs, own)
        results.append(
            CreatableTopicResult(
                name=topic.name,
                topic_id=topic_id,
                num_partitions=len(partitions),
                replication_factor=len(partitions[0].replicas),
                configs=created_topic_configs(configs, broker),
            )
        )
    return Decision(CreateTopicsResponse(topics=results), () if request.validate_only else records)


def topic_records(
    name: str, topic_id: UUID, configs: Mapping[str, str], partitions: Sequence[PartitionImage]
) -> list[MetadataRecord]:
    """The records that create a topic; a view has no partitions of its own."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            ConfigRecord(resource_type=RESOURCE_TYPE_TOPIC, resource_name=name, name=config, value=value)
            for config, value in configs.items()
        ),
        *(partition_record(topic_id, partition) for partition in partitions),
    ]


def _require_new_name(name: str, image: MetadataImage, collisions: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC_NAME:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    validate_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if collision_key(name) in collisions:
        other = collisions[collision_key(name)]
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _configs_of(topic: CreatableTopic, broker: BrokerConfigs) -> dict[str, str]:
    if len(topic.configs) > CONFIGS_PER_RESOURCE_MAX:
        raise InvalidConfig(f"{len(topic.configs)} configs for one topic, {CONFIGS_PER_RESOURCE_MAX} are allowed")
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    validate(configs, broker.topic_defaults, topic.name)
    return configs


def _partitions_wanted(topic: CreatableTopic) -> int:
    return len(topic.assignments) if topic.assignments else max(topic.num_partitions, 1)


def _partitions_of(
    topic: CreatableTopic, topic_id: UUID, nodes: Mapping[int, Node], broker: BrokerConfigs
) -> list[PartitionImage]:
    if topic.assignments:
        replicas = _assigned(topic, nodes)
    else:
        count = _count(topic, broker)
        factor = _replication_factor(topic, nodes, broker)
        replicas = place(nodes, count, factor, topic_id.int)
    return [new_partition(number, chosen, nodes) for number, chosen in enumerate(replicas)]


def _count(topic: CreatableTopic, broker: BrokerConfigs) -> int:
    if topic.num_partitions == NO_VALUE:
        return broker.number("num.partitions")
    if topic.num_partitions <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid non-positive value: {topic.num_partitions}.",
        )
    return topic.num_partitions


def _replication_factor(topic: CreatableTopic, nodes: Mapping[int, Node], broker: BrokerConfigs) -> int:
    factor = topic.replication_factor
    if factor == NO_VALUE:
        factor = broker.number("default.replication.factor")
    elif factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor must be larger than 0, or -1 to use the default value, but it is {factor}.",
        )
    if factor > len(nodes):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(nodes)} broker(s) are registered.",
        )
    return factor


def _assigned(topic: CreatableTopic, nodes: Mapping[int, Node]) -> list[tuple[int, ...]]:
    for is_given, what in (
        (topic.replication_factor != NO_VALUE, "replication factor"),
        (topic.num_partitions != NO_VALUE, "numPartitions"),
    ):
        if is_given:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    by_partition = dict[int, tuple[int, ...]]()
    for assignment in topic.assignments:
        if assignment.partition_index in by_partition:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        replicas = tuple(assignment.broker_ids)
        validate_assignment(replicas, nodes, len(next(iter(by_partition.values()), replicas)))
        by_partition[assignment.partition_index] = replicas
    if sorted(by_partition) != list(range(len(by_partition))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [by_partition[number] for number in range(len(by_partition))]


def validate_assignment(replicas: tuple[int, ...], nodes: Mapping[int, Node], replication_factor: int) -> None:
    """Raises KafkaError INVALID_REPLICA_ASSIGNMENT."""
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    elif unknown := [node for node in replicas if node not in nodes]:
        why = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
    elif twice := [node for node, count in Counter(replicas).items() if count > 1]:
        why = f"The manual partition assignment includes the broker {twice[0]} more than once."
    elif len(replicas) != replication_factor:
        why = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


# --- deletion


@Deciding
def decide_delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    *,
    is_enabled: bool = True,
    charge: Callable[[int], None] = uncharged,
) -> InTurns[Decision[DeleteTopicsResponse]]:
    """Topics by name or id, all in `request.topics`. Their files are removed later: `image.deleted_topics`."""
    names, ids = Counter[str | None](), Counter[UUID | None]()
    ids_of_named = set[UUID]()
    pace = Pace()
    for state in request.topics:
        names[state.name] += 1
        ids[state.topic_id] += 1
        if pace.is_over():
            yield
    for state in request.topics:
        if state.topic_id is None and state.name in image.topics and names[state.name] == 1:
            ids_of_named.add(image.topics[state.name or ""].topic_id)
        if pace.is_over():
            yield
    results, records = [], list[MetadataRecord]()
    answered, gone = set[str | UUID](), set[UUID]()
    # A topic that has views is deleted behind them, if one request names both.
    states = sorted(request.topics, key=lambda state: not _is_view(image, state)) if image.views else request.topics
    for state in states:
        if pace.is_over():
            yield
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        is_valid_form = (state.name is None) != (state.topic_id is None)
        key = state.name if state.name is not None else state.topic_id
        if is_valid_form and key in answered:
            continue
        try:
            _require_one_name(state)
            assert key is not None
            answered.add(key)
            _require_named_once(state, names, ids)
            if not is_enabled:
                raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            result.name, result.topic_id = _find(image, state)
            if ids[result.topic_id] and result.topic_id in ids_of_named:
                if state.name is None:
                    continue  # answered by its name
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            topic = image.topics_by_id[result.topic_id]
            if image.views:
                require_unviewed(topic.name, (one for one in image.views_of(topic.name) if one.topic_id not in gone))
            charge(1 if topic.view is not None else len(topic.partitions))
        except BmqError as error:
            result.error_code, result.error_message = error.code, str(error)
        else:
            gone.add(result.topic_id)
            records.append(RemoveTopicRecord(topic_id=result.topic_id))
        results.append(result)
    return Decision(DeleteTopicsResponse(responses=results), records)


def _is_view(image: MetadataImage, state: DeleteTopicState) -> bool:
    topic = image.topics.get(state.name or "") if state.topic_id is None else image.topics_by_id.get(state.topic_id)
    return topic is not None and topic.view is not None


def _require_one_name(state: DeleteTopicState) -> None:
    if (state.name is None) == (state.topic_id is None):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id."
            if state.name is not None
            else "Neither topic name nor id were specified.",
        )


def _require_named_once(state: DeleteTopicState, names: Counter[str | None], ids: Counter[UUID | None]) -> None:
    if state.name is not None and names[state.name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if state.topic_id is not None and ids[state.topic_id] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")


def _find(image: MetadataImage, state: DeleteTopicState) -> tuple[str, UUID]:
    if state.topic_id is not None:
        topic = image.topics_by_id.get(state.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    else:
        topic = image.topics.get(state.name or "")
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic.name, topic.topic_id
