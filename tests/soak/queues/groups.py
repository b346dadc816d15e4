"""Share groups and their topics as an administrator sees them: made, configured, and asked what is left to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from testing.wire import WireClient
from tests.soak.clients import CREATE_TIMEOUT_S
from tests.soak.logins import ADMINISTRATOR, Logins
from tests.soak.queues.plan import GROUP_PLANS, LETTERS, LOCK_S, PARTITIONS, TOPIC, GroupPlan

LOCK_MS: Final = str(round(LOCK_S * 1_000))
# By default no group may ask for locks that are shorter than 15 s.
SERVER_CONFIGS: Final[Mapping[str, str]] = {"group.share.min.record.lock.duration.ms": LOCK_MS}
_GROUP_RESOURCE: Final = 32
_VERSION: Final = 1
_SET: Final = 0


def make_topics(bootstrap: str, segment_bytes: int, logins: Logins) -> None:
    """Raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **logins.settings(ADMINISTRATOR)})
    topics = [
        NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": str(segment_bytes)}),
        NewTopic(LETTERS, 1, 1, config={"errors.deadletterqueue.group.enable": "true"}),
    ]
    for made in admin.create_topics(topics).values():
        made.result(timeout=CREATE_TIMEOUT_S)


def configure_groups(port: int, logins: Logins) -> None:
    """Raises OSError, AssertionError."""
    request = IncrementalAlterConfigsRequest(resources=tuple(map(_configs, GROUP_PLANS)))
    with logins.wire(port) as client:
        answer = _asked(client, request)
    for one in answer.responses:
        assert one.error_code == ErrorCode.NONE, f"configs of {one.resource_name}: {one.error_message}"


def _asked(client: WireClient, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    payload = encode_request(api, _VERSION, 1, "soak", request)
    client.send_raw(len(payload).to_bytes(4, "big") + payload)
    return decode_response(api, _VERSION, client.receive_frame())[1]


def _configs(plan: GroupPlan) -> AlterConfigsResource:
    values = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": LOCK_MS,
        "share.delivery.count.limit": str(plan.deliveries_max),
        "errors.deadletterqueue.topic.name": LETTERS,
    }
    configs = tuple(AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in values.items())
    return AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=plan.name, configs=configs)


class Undone(NamedTuple):
    """`records`: how many are not done; `what`: a sentence, empty when everything is done."""

    records: float = 0
    what: str = ""


def left_to_do(get: Callable[[str], tuple[int, str]], group: str, ends: Mapping[int, int]) -> Undone:
    """What the server says that a group has not done of all below these ends. `get`: of its REST address."""
    status, text = get(f"/v1/groups/{group}/explain")
    if status != 200:
        return Undone(inf, f"the server does not explain it: {status} {text}")
    return undone(json.loads(text), ends)


def undone(explained: Mapping[str, Any], ends: Mapping[int, int]) -> Undone:
    """By the answer of a server that was asked why a group gets nothing."""
    found = {one["partition"]: one for one in explained["partitions"] if one["topic"] == TOPIC}
    left = {
        partition: found.get(partition)
        for partition, end in ends.items()
        if partition not in found
        or found[partition]["high_watermark"] < end
        or found[partition]["lag"] is None
        or any(found[partition][name] for name in ("lag", "locked", "delayed", "archiving"))
    }
    lags = [one["lag"] if one is not None and one["lag"] is not None else inf for one in left.values()]
    whats = [
        f"partition {partition}, which ends at {ends[partition]}: {json.dumps(one)}" for partition, one in left.items()
    ]
    return Undone(sum(lags), "; ".join(whats))
