"""A cluster in memory with the calls of bmq.cli.kafka.client.KafkaClient, for tests of commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bmq.cli.kafka.acls import AclEntry
from bmq.cli.kafka.model import (
    Config,
    ConfigChange,
    ConfigKind,
    Group,
    GroupDetails,
    KafkaFailed,
    Partition,
    Topic,
    TopicPartitionState,
)
from bmq.protocol.error_codes import ErrorCode

DEFAULTS = (Config("cleanup.policy", "delete", "default"), Config("retention.ms", "604800000", "default"))


@dataclass
class FakeKafka:
    """`logs`: (timestamp in ms of each record) by partition, from offset `starts` on. `calls`: what was changed."""

    made: dict[str, Topic] = field(default_factory=dict)
    starts: dict[Partition, int] = field(default_factory=dict)
    logs: dict[Partition, list[int]] = field(default_factory=dict)
    set_configs: dict[tuple[ConfigKind, str], list[Config]] = field(default_factory=dict)
    group_details: dict[str, GroupDetails] = field(default_factory=dict)
    simple: list[Group] = field(default_factory=list)
    group_offsets: dict[str, dict[Partition, int]] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    scram: dict[tuple[str, str], int] = field(default_factory=dict)
    held_acls: list[AclEntry] = field(default_factory=list)

    def acls(self) -> list[AclEntry]:
        return list(self.held_acls)

    def add_acls(self, entries: Sequence[AclEntry]) -> None:
        self.held_acls += entries

    def remove_acls(self, entries: Sequence[AclEntry]) -> None:
        self.held_acls = [one for one in self.held_acls if one not in entries]

    def add(self, name: str, *logs: Sequence[int], is_internal: bool = False) -> None:
        """A topic with these records."""
        states = tuple(TopicPartitionState(number, 1, (1, 2), (1,)) for number in range(len(logs)))
        self.made[name] = Topic(name, f"id-of-{name}", is_internal, states)
        for number, times in enumerate(logs):
            self.starts[name, number] = 0
            self.logs[name, number] = list(times)

    def users(self) -> list[tuple[str, str, int]]:
        return sorted((name, mechanism, iterations) for (name, mechanism), iterations in self.scram.items())

    def add_user(self, name: str, mechanism: str, iterations: int, password: str) -> None:
        self.scram[name, mechanism] = iterations
        self.calls.append(("add_user", name, mechanism, iterations, password))

    def delete_user(self, name: str, mechanism: str) -> None:
        del self.scram[name, mechanism]
        self.calls.append(("delete_user", name, mechanism))

    def topic_names(self) -> list[str]:
        return sorted(self.made)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: self.made[name] for name in names if name in self.made}

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str],
        is_dry_run: bool = False,
    ) -> None:
        if name in self.made:
            raise KafkaFailed(f"topic {name!r} cannot be made: it is there", ErrorCode.TOPIC_ALREADY_EXISTS)
        if not is_dry_run:
            self.add(name, *([] for _ in range(max(1, partitions))))
            self.calls.append(("create", name, partitions, replication, dict(configs)))

    def add_partitions(self, name: str, partition_count: int, *, is_dry_run: bool = False) -> None:
        topic = self.made[name]
        if partition_count <= len(topic.partitions):
            raise KafkaFailed("this would not be an increase", ErrorCode.INVALID_PARTITIONS)
        if not is_dry_run:
            self.calls.append(("partitions", name, partition_count))

    def delete_topic(self, name: str) -> None:
        del self.made[name]
        self.calls.append(("delete", name))

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]:
        for partition, offset in before.items():
            gone = offset - self.starts[partition]
            self.starts[partition] = offset
            del self.logs[partition][:gone]
        return dict(before)

    def offsets(
        self, partitions: Iterable[Partition], at: Literal["earliest", "latest"] | int, *, is_committed: bool = False
    ) -> dict[Partition, int]:
        return {partition: self._offset(partition, at) for partition in partitions}

    def _offset(self, partition: Partition, at: Literal["earliest", "latest"] | int) -> int:
        if partition not in self.logs:
            raise KafkaFailed(f"no offset of {partition[0]}-{partition[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
        start, times = self.starts[partition], self.logs[partition]
        if at == "earliest":
            return start
        if at == "latest":
            return start + len(times)
        assert isinstance(at, int)
        return next((start + number for number, time_ms in enumerate(times) if time_ms >= at), -1)

    def brokers(self) -> list[int]:
        return [1, 2]

    def configs(self, kind: ConfigKind, name: str) -> list[Config]:
        own = {each.name: each for each in self.set_configs.get((kind, name), ())}
        found = {each.name: each for each in DEFAULTS} | own
        return [found[each] for each in sorted(found)]

    def alter_configs(
        self, kind: ConfigKind, name: str, changes: Sequence[ConfigChange], *, is_dry_run: bool = False
    ) -> None:
        if any(change.name == "unknown" for change in changes):
            raise KafkaFailed("Unknown topic config name: unknown", ErrorCode.INVALID_CONFIG)
        if not is_dry_run:
            self.calls.append(("configs", kind.value, name, tuple(changes)))

    def groups(self) -> list[Group]:
        known = [Group(each.name, each.kind, each.state, False) for each in self.group_details.values()]
        return sorted(known + self.simple)

    def group(self, name: str) -> GroupDetails:
        if name not in self.group_details:
            raise KafkaFailed(f"group {name!r} cannot be described", ErrorCode.GROUP_ID_NOT_FOUND)
        return self.group_details[name]

    def committed(self, group: str) -> dict[Partition, int]:
        return dict(self.group_offsets.get(group, {}))

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        if group in self.group_details and self.group_details[group].members:
            raise KafkaFailed("the group has members", ErrorCode.UNKNOWN_MEMBER_ID)
        self.group_offsets.setdefault(group, {}).update(offsets)
        self.calls.append(("commit", group, dict(offsets)))

    def delete_group(self, name: str) -> None:
        if name in self.group_details and self.group_details[name].members:
            raise KafkaFailed(f"group {name!r} cannot be deleted: not empty", ErrorCode.NON_EMPTY_GROUP)
        self.group_details.pop(name, None)
        self.simple = [each for each in self.simple if each.name != name]
        self.calls.append(("delete group", name))

    def without_leader(self, name: str) -> None:
        """Nobody leads the topic's first partition."""
        topic = self.made[name]
        self.made[name] = replace(topic, partitions=(replace(topic.partitions[0], leader=None), *topic.partitions[1:]))
