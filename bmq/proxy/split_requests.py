"""Says which large requests are cut into parts (bmq.protocol.request_parts), and which are refused for their size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, NamedTuple

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, array_codec
from bmq.protocol.request_parts import Part, Path, distinct_elements, parts_of
from bmq.protocol.streamed_parts import StreamedParts
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX, Pace
from bmq.protocol.wire import Buffer
from bmq.protocol.wire_turns import InTurns


class Split(NamedTuple):
    """How the requests of an API are cut.

    `asked`: path of arrays from the request to its elements. `answered`: path from the response to the elements' answers, in the
    same order. `distinct`: (the array whose elements may repeat, the fields that tell two apart); of equal ones the last counts,
    at the place of the first, as in a request that is not cut. `at_once`: elements of a part. `bounded`: arrays with at most
    CHANGES_MAX elements in all, each; a request with them is decided as a whole, or refused (part by part) with POLICY_VIOLATION.
    `named`: for a request that is cut only if it is streamed, see StreamedParts. `bounds_each`: the bound is for each container,
    not for all.
    """

    asked: Path
    answered: Path
    at_once: int = ELEMENTS_PER_TURN_MAX
    distinct: tuple[Path, Callable[[Any], Hashable]] | None = None
    bounded: tuple[Path, ...] = ()
    named: Callable[[Any, Any], Hashable] | None = None
    bounds_each: bool = False


CHANGES_MAX: Final = 10_000
"""Most changes of one request to the controller: Kafka's MAX_RECORDS_PER_USER_OP, with its error code."""


READING: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    }
)
"""APIs that change nothing, so that their requests may be answered late (rule 22 does not matter)."""


def split_of(api_key: ApiKey, api_version: int, request: Any) -> Split | None:
    """How this request is cut; None if it is answered as a whole."""
    match api_key:
        case ApiKey.FIND_COORDINATOR if api_version < 4:
            return None
        case ApiKey.LEAVE_GROUP if api_version < 3:
            return None
        case ApiKey.OFFSET_FETCH if api_version < 8:
            return Split(("topics", "partition_indexes"), ("topics", "partitions")) if request.topics else None
        case ApiKey.METADATA if not request.topics:
            return None
        case ApiKey.ADD_PARTITIONS_TO_TXN if api_version < 4:
            return None
    split = _SPLITS.get(api_key)
    if api_key is ApiKey.DELETE_TOPICS and split is not None and request.topic_names:
        split = split._replace(asked=("topic_names",))
    return None if split is not None and split.bounded and not is_refused(request, split) else split


def streamed_splits_of(api_key: ApiKey, api_version: int) -> tuple[Split, ...]:
    """Ways to cut a request of this API whose elements are decoded part by part. The first one that fits is used, if any does."""
    match api_key:
        case ApiKey.FIND_COORDINATOR if api_version < 4:
            return ()
        case ApiKey.LEAVE_GROUP if api_version < 3:
            return ()
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return (_ADD_PARTITIONS_TO_ONE, _SPLITS[api_key]) if api_version >= 4 else ()
        case ApiKey.OFFSET_FETCH if api_version < 8:
            return (Split(("topics", "partition_indexes"), ("topics", "partitions")),)
        case ApiKey.DELETE_TOPICS if api_version < 6:
            return (_SPLITS[api_key]._replace(asked=("topic_names",), bounded=(("topic_names",),)),)
        case ApiKey.LIST_OFFSETS:
            return (_LIST_OFFSETS,)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            return (Split(("dirs", "topics"), ("results",)),)  # results: in the order of the topics of all directories
    return (_SPLITS[api_key],) if api_key in _SPLITS else ()


def streamed(split: Split, header: RequestHeader, frame: Buffer) -> StreamedParts:
    """The parts of the request in `frame`."""
    return StreamedParts(
        array_codec("request", header.api_key, header.api_version, split.asked[0]),
        frame,
        header.body_position,
        split.asked,
        split.at_once,
        split.distinct,
        split.named,
        tuple(path for path in split.bounded if path[0] == split.asked[0]),
    )


def is_cut(parts: StreamedParts, split: Split) -> bool:
    """Whether a surveyed request is answered in parts; if not, it is decoded as a whole."""
    if parts.count <= 0:
        return False
    if split.bounds_each:
        return parts.longest > CHANGES_MAX
    return not split.bounded or any(count > CHANGES_MAX for count in parts.counts.values())


def is_refused(request: Any, split: Split) -> bool:
    """Whether the request asks for more changes than one request may."""
    return any(_has_more(request, path) for path in split.bounded)


def _has_more(request: Any, path: Path) -> bool:
    owners, count = [request], 0
    for name in path[:-1]:
        owners = [inner for owner in owners for inner in getattr(owner, name) or ()]
    for owner in owners:
        count += len(getattr(owner, path[-1]) or ())
    return count > CHANGES_MAX


def without_repeats(request: Any, split: Split) -> InTurns[Any]:
    """The request without repeated elements."""
    if split.distinct is None:
        return request
    path, key = split.distinct
    return (yield from distinct_elements(request, path, key, Pace()))


def cut(request: Any, split: Split) -> Iterator[Part]:
    """The parts of a request, in order."""
    return parts_of(request, split.asked, split.at_once)


_A_CONFIG_RESOURCE: Final = 50
"""Cost of a config resource, in other elements: each is answered with all its configs."""
_A_WRITE: Final = 10
"""Cost of a write, in other elements: each is a start of a partition, or a round trip to the store."""

_SPLITS: Final[dict[ApiKey, Split]] = {
    ApiKey.METADATA: Split(("topics",), ("topics",), distinct=(("topics",), lambda one: one.topic_id or one.name)),
    ApiKey.OFFSET_COMMIT: Split(("topics", "partitions"), ("topics", "partitions"), ELEMENTS_PER_TURN_MAX // 2),
    ApiKey.TXN_OFFSET_COMMIT: Split(("topics", "partitions"), ("topics", "partitions"), ELEMENTS_PER_TURN_MAX // 2),
    ApiKey.OFFSET_FETCH: Split(
        ("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), ELEMENTS_PER_TURN_MAX // 2
    ),
    ApiKey.FIND_COORDINATOR: Split(("coordinator_keys",), ("coordinators",)),
    ApiKey.DESCRIBE_GROUPS: Split(("groups",), ("groups",), ELEMENTS_PER_TURN_MAX // _A_WRITE),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split(("group_ids",), ("groups",), ELEMENTS_PER_TURN_MAX // _A_WRITE),
    ApiKey.STREAMS_GROUP_DESCRIBE: Split(("group_ids",), ("groups",), ELEMENTS_PER_TURN_MAX // _A_WRITE),
    ApiKey.SHARE_GROUP_DESCRIBE: Split(("group_ids",), ("groups",), ELEMENTS_PER_TURN_MAX // _A_WRITE),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Split(
        ("groups", "topics", "partitions"), ("groups", "topics", "partitions"), ELEMENTS_PER_TURN_MAX // _A_WRITE
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Split(
        ("topics", "partitions"), ("responses", "partitions"), ELEMENTS_PER_TURN_MAX // _A_WRITE
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Split(("topics",), ("responses",), ELEMENTS_PER_TURN_MAX // _A_WRITE),
    ApiKey.DELETE_GROUPS: Split(
        ("groups_names",),
        ("results",),
        ELEMENTS_PER_TURN_MAX // _A_WRITE,
        distinct=(("groups_names",), lambda one: one),
    ),
    ApiKey.LEAVE_GROUP: Split(("members",), ("members",)),
    ApiKey.DESCRIBE_TRANSACTIONS: Split(("transactional_ids",), ("transaction_states",)),
    ApiKey.DESCRIBE_CONFIGS: Split(("resources",), ("results",), ELEMENTS_PER_TURN_MAX // _A_CONFIG_RESOURCE),
    ApiKey.DESCRIBE_PRODUCERS: Split(
        ("topics", "partition_indexes"), ("topics", "partitions"), ELEMENTS_PER_TURN_MAX // 4
    ),
    ApiKey.DESCRIBE_QUORUM: Split(("topics", "partitions"), ("topics", "partitions")),
    ApiKey.DELETE_RECORDS: Split(("topics", "partitions"), ("topics", "partitions"), ELEMENTS_PER_TURN_MAX // 4),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split(
        ("topics", "partitions"), ("topics", "partitions"), ELEMENTS_PER_TURN_MAX // 4
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Split(
        ("transactions",), ("results_by_transaction",), ELEMENTS_PER_TURN_MAX // _A_WRITE
    ),
    ApiKey.WRITE_TXN_MARKERS: Split(
        ("markers", "topics", "partition_indexes"),
        ("markers", "topics", "partitions"),
        ELEMENTS_PER_TURN_MAX // _A_WRITE,
    ),
    ApiKey.CREATE_TOPICS: Split(
        ("topics",), ("topics",), bounded=(("topics",), ("topics", "assignments"), ("topics", "configs"))
    ),
    ApiKey.DELETE_TOPICS: Split(("topics",), ("responses",), bounded=(("topics",), ("topic_names",))),
    ApiKey.CREATE_PARTITIONS: Split(("topics",), ("results",), bounded=(("topics",), ("topics", "assignments"))),
    ApiKey.ALTER_CLIENT_QUOTAS: Split(("entries",), ("entries",), bounded=(("entries",), ("entries", "ops"))),
    ApiKey.ALTER_CONFIGS: Split(("resources",), ("responses",), bounded=(("resources",), ("resources", "configs"))),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Split(
        ("resources",), ("responses",), bounded=(("resources",), ("resources", "configs"))
    ),
    ApiKey.ELECT_LEADERS: Split(
        ("topic_partitions", "partitions"),
        ("replica_election_results", "partition_result"),
        bounded=(("topic_partitions",), ("topic_partitions", "partitions")),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Split(
        ("topics", "partitions"), ("responses", "partitions"), bounded=(("topics",), ("topics", "partitions"))
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Split(("users",), ("results",), bounded=(("users",),)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Split(
        ("upsertions",), ("results",), bounded=(("upsertions",), ("deletions",))
    ),
}
_ADD_PARTITIONS_TO_ONE: Final = Split(
    ("transactions", "topics"),
    ("results_by_transaction", "topic_results"),
    bounded=(("transactions", "topics"),),
    bounds_each=True,
)
"""All partitions of a transaction are added, or none. A transaction with more topics than CHANGES_MAX is refused."""
_LIST_OFFSETS: Final = Split(
    ("topics", "partitions"),
    ("topics", "partitions"),
    distinct=(("topics", "partitions"), lambda one: one.partition_index),
    named=lambda topic, one: (topic.name, one.partition_index),
)
"""A whole request needs one proof for all idle partitions; cut into parts, it needs one for each part."""
