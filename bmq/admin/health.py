"""Why a server is not ready, or not well: each reason with what is wrong and what to do. Decisions only.

Three questions have three answers. Live: the event loop answers, so a restart would not help. Ready: produces are accepted.
Why: the reasons below, the gravest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from bmq.dataclass import dataclass

RECENT_S: Final = 600
"""For how long a logged error and a stall are reasons."""
START_WAIT_S: Final = 5.0
"""A partition whose start waits for longer is told of. Shorter ones are part of a move while a DataNode or NameNode changes."""
_NODES_NAMED_MAX: Final = 10
_PARTITIONS_NAMED_MAX: Final = 3
_CAUSE_CHARACTERS_MAX: Final = 200


class Stage(Enum):
    """How far a server has come."""

    STORE = "store"
    ELECTION = "election"
    REGISTRATION = "registration"
    METADATA = "metadata"
    SERVING = "serving"
    STOPPING = "stopping"


class Severity(Enum):
    """NOT_READY: clients are not served. ERROR: data or a part of the service is at stake. WARNING: look at it soon."""

    NOT_READY = "not_ready"
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event that was logged. `severity`: `warning` or `error`. `last_ms`: wall time of the last line."""

    event: str
    severity: str
    count: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class UnstartedPartition:
    """A partition whose start is tried again and again. `cause`: what the store said last."""

    name: str
    waited_s: float
    cause: str


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What a server knows of itself.

    `is_fenced`: it serves, but the controller does not count it as a live node. `is_controller_silent`: no controller has
    answered for longer than a poll takes. `unreachable_nodes`: nodes of the cluster that this one cannot reach.
    `is_store_away`: this node does not reach the store. `left_out_datanodes`: DataNodes that failed and get no new blocks for a while. `stalled_ago_s`: since the event loop's
    last stall; None: there was none. `errors`: logged lately, the latest first. `unstarted`: partitions that cannot be started, the
    longest wait first.
    """

    stage: Stage = Stage.SERVING
    is_fenced: bool = False
    is_controller_silent: bool = False
    is_store_away: bool = False
    unreachable_nodes: Sequence[int] = ()
    left_out_datanodes: int = 0
    stalled_ago_s: float | None = None
    errors: Sequence[LoggedEvent] = ()
    unstarted: Sequence[UnstartedPartition] = ()


@dataclass(frozen=True, slots=True)
class HealthReason:
    """`code`: a stable name. `what` is wrong and `what_to_do`: sentences."""

    code: str
    severity: Severity
    what: str
    what_to_do: str


_WAITS: Final[Mapping[Stage, HealthReason]] = {
    Stage.STORE: HealthReason(
        "waits_for_store",
        Severity.NOT_READY,
        "The start waits for the store.",
        "Check that the file system of the setting `store` answers and is out of safe mode. The log line "
        "waiting_for_the_store has the cause.",
    ),
    Stage.ELECTION: HealthReason(
        "waits_for_zookeeper",
        Severity.NOT_READY,
        "The node waits for ZooKeeper.",
        "Check that the servers of the setting `zookeeper` answer. The log line waiting_for_zookeeper has the cause.",
    ),
    Stage.REGISTRATION: HealthReason(
        "waits_for_controller",
        Severity.NOT_READY,
        "The node is not registered at a controller.",
        "Check that a node with the role controller runs, and that this node reaches its internal address. The log lines "
        "controller_silent and node_not_registered have the cause.",
    ),
    Stage.METADATA: HealthReason(
        "recovers_metadata",
        Severity.NOT_READY,
        "The server recovers its metadata.",
        "Wait. If it takes minutes, look for warnings in the log.",
    ),
    Stage.STOPPING: HealthReason(
        "stopping",
        Severity.NOT_READY,
        "The server stops.",
        "Nothing, if the stop was ordered.",
    ),
}
_FENCED: Final = HealthReason(
    "fenced",
    Severity.NOT_READY,
    "The controller does not count this node as alive.",
    "The node registers again by itself. If it does not, check the network between it and the active controller, and "
    "whether the machine's processors are overloaded.",
)
_NOT_READY: Final = HealthReason(
    "not_ready", Severity.NOT_READY, "The server does not accept produces.", "Look for the last warnings in the log."
)
_STORE_AWAY: Final = HealthReason(
    "store_away",
    Severity.ERROR,
    "This node cannot read from the store, or not write to it.",
    "If other nodes can, check the network and the name service of this machine: its partitions move to the others by "
    "themselves. If no node can, check HDFS.",
)
_CONTROLLER_SILENT: Final = HealthReason(
    "controller_silent",
    Severity.ERROR,
    "No controller answers this node, so it sees no change of topics and of partitions' owners.",
    "Check that a node with the role controller runs and that ZooKeeper answers. The log line controller_not_activated "
    "means that the metadata log is damaged.",
)


def reasons(
    facts: HealthFacts, states: Mapping[str, int], problems: Sequence[str], *, is_ready: bool
) -> tuple[HealthReason, ...]:
    """All reasons, the gravest first; none: the server is well.

    `states`: number of partitions by state. `problems`: sentences of what does not work, such as compaction.
    """
    order = list(Severity)
    found = [
        *_not_ready(facts, is_ready),
        *_partitions(states),
        *_unstarted(facts.unstarted),
        *_cluster(facts),
        *_own(facts, problems),
    ]
    return tuple(sorted(found, key=lambda reason: order.index(reason.severity)))


def _not_ready(facts: HealthFacts, is_ready: bool) -> Iterator[HealthReason]:
    if is_ready:
        return
    if facts.stage in _WAITS:
        yield _WAITS[facts.stage]
    else:
        yield _FENCED if facts.is_fenced else _NOT_READY


def _partitions(states: Mapping[str, int]) -> Iterator[HealthReason]:
    if count := states.get("offline", 0):
        yield HealthReason(
            "partitions_offline",
            Severity.ERROR,
            f"{_some(count, 'partition')} offline: acknowledged data is missing, a file is damaged, or the server failed "
            "inside.",
            "Follow 'A partition that is offline' in docs/OPERATIONS.md. The log lines partition_offline name them.",
        )
    if count := states.get("blocked", 0):
        yield HealthReason(
            "partitions_blocked",
            Severity.ERROR,
            f"{_some(count, 'partition')} blocked: the store has no room or does not answer.",
            "Free space, raise the quota, or bring DataNodes back. Produces work again without a restart. The log lines "
            "partition_blocked have the cause.",
        )


def _unstarted(partitions: Sequence[UnstartedPartition]) -> Iterator[HealthReason]:
    """Not a reason to be unready: the node serves its other partitions, and no other node could start these on the same store."""
    if not partitions:
        return
    named = _first([one.name for one in partitions], _PARTITIONS_NAMED_MAX)
    oldest = partitions[0]
    yield HealthReason(
        "partitions_not_started",
        Severity.ERROR,
        f"{_some(len(partitions), 'partition')} not started: {named}, for "
        f"{oldest.waited_s:.0f} s. The store: {oldest.cause[:_CAUSE_CHARACTERS_MAX].rstrip('.')}.",
        "Free space, raise the quota, leave safe mode, or bring DataNodes back. The start is tried again by itself. The log lines "
        "partition_start_waits name each.",
    )


def _cluster(facts: HealthFacts) -> Iterator[HealthReason]:
    if facts.is_store_away:
        yield _STORE_AWAY
    if facts.is_controller_silent and facts.stage is Stage.SERVING:
        yield _CONTROLLER_SILENT
    if facts.unreachable_nodes:
        named = _first([str(one) for one in sorted(facts.unreachable_nodes)], _NODES_NAMED_MAX)
        yield HealthReason(
            "nodes_unreachable",
            Severity.WARNING,
            f"This node cannot reach the nodes {named}.",
            "Check that these processes run, and the network to their internal addresses. Their partitions move to other "
            "nodes by themselves.",
        )
    if facts.left_out_datanodes:
        yield HealthReason(
            "datanodes_left_out",
            Severity.WARNING,
            f"{_some(facts.left_out_datanodes, 'DataNode')} left out of new blocks for a while, after a failure.",
            "Check the DataNodes that the log lines datanode_lost name: their process, disk and network.",
        )


def _own(facts: HealthFacts, problems: Sequence[str]) -> Iterator[HealthReason]:
    for problem in problems:
        yield HealthReason(
            "compaction_unavailable",
            Severity.WARNING,
            f"{problem[:1].upper()}{problem[1:].removesuffix('.')}.",
            "It is tried again by itself. The log line compaction_unavailable has the cause.",
        )
    if facts.stalled_ago_s is not None and facts.stalled_ago_s <= RECENT_S:
        yield HealthReason(
            "loop_stalled",
            Severity.WARNING,
            f"The process did not run for longer than loop_stall_max_ms, {facts.stalled_ago_s:.0f} s ago. All connections "
            "were dropped.",
            "Look for a paused machine, for swapping and for overloaded processors.",
        )
    if facts.errors:
        last = facts.errors[0]
        more = len(facts.errors) - 1
        others = f", and {more} other kinds" if more > 1 else ", and one other kind" if more else ""
        yield HealthReason(
            "errors_logged",
            Severity.WARNING,
            f"Errors were logged in the last {RECENT_S // 60} minutes: {last.event}{others}.",
            "Read these lines in the log. docs/EVENTS.md lists all events.",
        )


def _first(names: Sequence[str], count: int) -> str:
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more > 0 else "")


def _some(count: int, noun: str) -> str:
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"
