"""One of the two servers as the cases see it: a connection, what was set up there, and what the server calls it."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from testing import wire
from testing.wire import WireClient
from tests.conformance import codec
from tests.conformance.answers import Aliases
from tests.conformance.asker import Asker
from tests.conformance.case import CLIENT_ID
from tests.conformance.schemas import API_VERSIONS

ANSWER_WAIT_S: Final = 10.0
SETUP_WAIT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.01
UNKNOWN_ID: Final = uuid.UUID("7f1d2c9a-5b60-4c0e-9d3e-0123456789ab")
COORDINATOR_RETRIES: Final = frozenset({14, 15, 16, 51})
_NAMES: Final = re.compile(r"[^a-z0-9]+")

# Newest versions of Kafka 4.3 with names of topics in place of ids.
_CREATE_TOPICS, _METADATA, _LIST_OFFSETS, _PRODUCE = (19, 7), (3, 12), (2, 7), (0, 9)


class SetupFailed(AssertionError):
    """A server did not do what a case needs before its request."""


class World:
    """Not for two threads at once."""

    def __init__(self, side: str, port: int, node_id: int = 0) -> None:
        self.side = side
        self.aliases = Aliases(node_id)
        self.served: dict[int, range] = {}
        self._asker = Asker(lambda: WireClient(port, ANSWER_WAIT_S))
        self._scope = ""
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._shared: dict[str, Any] = {}

    # -- requests ------------------------------------------------------------------------------------------------------

    def begin(self, scope: str) -> None:
        """Names are this case's from here on, and its connection is a new one."""
        self._scope = _NAMES.sub("-", scope.lower()).strip("-")
        self.close()

    def close(self) -> None:
        self._asker.close()

    def name(self, what: str = "t") -> str:
        """The same on both servers, and of no other case."""
        return f"{self._scope}-{what}"

    def send(
        self, api_key: int, version: int, body: bytes, *, is_answered: bool = True, client_id: str | None = CLIENT_ID
    ) -> Mapping[str, Any]:
        """The raw exchange: the answer's values, or one of CLOSED, SILENT, NOTHING."""
        return self._asker.send(api_key, version, body, is_answered=is_answered, client_id=client_id)

    def call(self, api_key: int, version: int, **values: Any) -> Mapping[str, Any]:
        """For setting up. Raises SetupFailed without an answer."""
        answer = self.send(api_key, version, codec.request_body(api_key, version, values))
        if "outcome" in answer:
            raise SetupFailed(f"{self.side}: api {api_key} version {version} {values}: {answer}")
        return answer

    def until(
        self, call: Callable[[], Mapping[str, Any]], done: Callable[[Mapping[str, Any]], bool]
    ) -> Mapping[str, Any]:
        """Asks again until `done`. Raises SetupFailed with the last answer."""
        deadline = time.monotonic() + SETUP_WAIT_S
        while not done(answer := call()):
            if time.monotonic() > deadline:
                raise SetupFailed(f"{self.side}: still {answer} after {SETUP_WAIT_S} s")
            time.sleep(POLL_INTERVAL_S)
        return answer

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """Made once, for all cases that do it no harm."""
        if key not in self._shared:
            scope, self._scope = self._scope, "shared"
            try:
                self._shared[key] = make()
            finally:
                self._scope = scope
        return self._shared[key]

    # -- the server itself ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Learn what it serves, and have it make its internal topics."""
        answer = self.call(API_VERSIONS, 4, client_software_name="conformance", client_software_version="1")
        self.served = {one["api_key"]: range(one["min_version"], one["max_version"] + 1) for one in answer["api_keys"]}
        nodes = self.call(3, 12, topics=[])
        self.aliases.node_id = nodes["controller_id"]
        for key_type in (0, 1):
            self.coordinator(key_type, "any")

    def coordinator(self, key_type: int, key: str) -> None:
        self.until(
            lambda: self.call(10, 4, key_type=key_type, coordinator_keys=[key]),
            lambda answer: answer["coordinators"][0]["error_code"] == 0,
        )

    # -- topics and records --------------------------------------------------------------------------------------------

    def topic(self, what: str = "t", partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """A new topic that takes records, by its whole name."""
        name = self.name(what)
        settings = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
        made = self.call(*_CREATE_TOPICS, topics=[topic], timeout_ms=20_000)["topics"][0]
        if made["error_code"]:
            raise SetupFailed(f"{self.side}: {name}: {made}")
        self._topic_ids[name] = made["topic_id"]
        self.aliases.learn(made["topic_id"], f"id of {name}")
        places = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        self.until(
            lambda: self.call(*_LIST_OFFSETS, replica_id=-1, topics=[{"name": name, "partitions": places}]),
            lambda answer: not any(one["error_code"] for one in answer["topics"][0]["partitions"]),
        )
        return name

    def topic_id(self, name: str) -> uuid.UUID:
        """Zero-knowledge of others: a topic that was not made here has the id that no topic has."""
        return self._topic_ids.get(name, UNKNOWN_ID)

    def of_topic(self, name: str) -> dict[str, Any]:
        """The topic in all the ways requests name it."""
        return {"name": name, "topic": name, "topic_name": name, "topic_id": self.topic_id(name)}

    def read_topic(self) -> str:
        """Shared: two partitions with three records each, for requests that change nothing."""

        def make() -> str:
            # Its records are years old: retention would find them in a run that takes longer than usual.
            name = self.topic("read", partitions=2, configs={"retention.ms": "-1"})
            for partition in range(2):
                self.produce(name, [b"one", b"two", b"three"], partition)
            return name

        found: str = self.shared("read", make)
        return found

    def produce(
        self,
        topic: str,
        values: Sequence[bytes],
        partition: int = 0,
        transactional_id: str | None = None,
        **batch: Any,
    ) -> int:
        """One batch; its base offset. Raises SetupFailed."""
        batch["is_transactional"] = transactional_id is not None
        data = [{"index": partition, "records": wire.record_batch(values, **batch)}]
        topics = [{"name": topic, "partition_data": data}]
        answer = self.call(*_PRODUCE, transactional_id=transactional_id, acks=-1, timeout_ms=20_000, topic_data=topics)
        result = answer["responses"][0]["partition_responses"][0]
        if result["error_code"]:
            raise SetupFailed(f"{self.side}: {topic}: {result}")
        offset: int = result["base_offset"]
        return offset

    # -- producers and groups ------------------------------------------------------------------------------------------

    def producer(self, transactional_id: str | None = None) -> dict[str, Any]:
        """Producer id and epoch, by their fields' names."""
        answer = self.until(
            lambda: self.call(22, 4, transactional_id=transactional_id, transaction_timeout_ms=60_000),
            lambda answer: answer["error_code"] not in COORDINATOR_RETRIES,
        )
        if answer["error_code"]:
            raise SetupFailed(f"{self.side}: {transactional_id}: {answer}")
        return {"producer_id": answer["producer_id"], "producer_epoch": answer["producer_epoch"]}

    def add_partitions(self, transactional_id: str, producer: Mapping[str, Any], topic: str) -> None:
        self.until(
            lambda: self.call(
                24,
                3,
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer["producer_id"],
                v3_and_below_producer_epoch=producer["producer_epoch"],
                v3_and_below_topics=[{"name": topic, "partitions": [0]}],
            ),
            lambda answer: (
                not answer["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"]
            ),
        )

    def transaction(self, transactional_id: str, topic: str) -> dict[str, Any]:
        """An open transaction with one record in partition 0; its producer."""
        producer = self.producer(transactional_id)
        self.add_partitions(transactional_id, producer, topic)
        self.produce(topic, [b"open"], transactional_id=transactional_id, **producer, base_sequence=0)
        return producer

    def member(
        self, group: str, topics: Sequence[str] = (), *, instance: str | None = None, assigned: Sequence[int] = ()
    ) -> dict[str, Any]:
        """The only member of a classic group, with these partitions of each topic: group_id, member_id, generation_id."""
        joining: dict[str, Any] = {
            "group_id": group,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": "",
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(topics)}],
        }
        joined = self.until(
            lambda: self.call(11, 3, **joining) if instance is None else self.call(11, 5, **joining),
            lambda answer: answer["error_code"] not in COORDINATOR_RETRIES,
        )
        if joined["error_code"]:
            raise SetupFailed(f"{self.side}: {group}: {joined}")
        member = {"group_id": group, "member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        self.aliases.learn(joined["member_id"], f"member of {group}")
        assignment = [
            {"member_id": member["member_id"], "assignment": partitions(topics if assigned else (), assigned)}
        ]
        synced = self.call(14, 3, **member, group_instance_id=instance, assignments=assignment)
        if synced["error_code"]:
            raise SetupFailed(f"{self.side}: {group}: {synced}")
        return member

    def commit(self, group: str, topic: str, offset: int = 2, partition: int = 0) -> None:
        """An offset of a group without members."""
        place = {"partition_index": partition, "committed_offset": offset, "committed_metadata": "note"}
        self.until(
            lambda: self.call(
                8,
                8,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": topic, "partitions": [place]}],
            ),
            lambda answer: not answer["topics"][0]["partitions"][0]["error_code"],
        )

    def consumer(self, group: str, topics: Sequence[str]) -> dict[str, Any]:
        """A member of a KIP-848 group, at the epoch that the first heartbeat gives: group_id, member_id, member_epoch."""
        member_id = f"{group}-member"
        answer = self.until(
            lambda: self.call(
                68,
                1,
                group_id=group,
                member_id=member_id,
                member_epoch=0,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=list(topics),
                topic_partitions=[],
            ),
            lambda answer: answer["error_code"] not in COORDINATOR_RETRIES,
        )
        if answer["error_code"]:
            raise SetupFailed(f"{self.side}: {group}: {answer}")
        return {"group_id": group, "member_id": member_id, "member_epoch": answer["member_epoch"]}


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription version 0."""
    names = b"".join(wire.string(topic) for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def partitions(topics: Sequence[str], indexes: Sequence[int]) -> bytes:
    """ConsumerProtocolAssignment version 1: these partitions of each topic."""
    places = b"".join(wire.string(topic) + len(indexes).to_bytes(4, "big") + _int32s(indexes) for topic in topics)
    return b"\0\1" + len(topics).to_bytes(4, "big") + places + b"\0\0\0\0"


def _int32s(numbers: Sequence[int]) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in numbers)
