"""Answers of the pages, and how they are made from an image. Timestamps are RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, Field

from bmq.admin.orders import Plan, led_counts
from bmq.admin.ports import NodeLoad
from bmq.admin.tasks import Task, TaskState
from bmq.log.partition_view import SegmentView
from bmq.metadata.history import StateChange
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage

MOVES_SHOWN_MAX = 1_000


class WhyView(BaseModel):
    """A reason why this server is not ready, or not well: its stable `code`, what is wrong and what to do."""

    code: str
    severity: Literal["not_ready", "error", "warning"]
    what: str
    what_to_do: str


class Health(BaseModel):
    """`ready` once produces are accepted. `why`: what is wrong, the gravest first. `problems`: those of `why` that concern
    compaction, a sentence each, as earlier releases named them.
    """

    ready: bool
    problems: list[str] = []
    why: list[WhyView] = []


class Live(BaseModel):
    """The process answers."""

    live: bool


class LoadView(BaseModel):
    """Measured over the last reports."""

    partitions: int
    bytes_in_s: float
    bytes_out_s: float
    requests_s: float


class NodeView(BaseModel):
    """`host`, `port`: where clients reach its proxy; null without one. `load`: known to the active controller only."""

    node_id: int
    host: str | None
    port: int | None
    rack: str | None
    roles: list[str]
    internal: str | None
    rest: str | None
    epoch: int
    is_draining: bool
    is_controller: bool
    partitions_led: int
    load: LoadView | None


class ClusterView(BaseModel):
    """`controller_rest`: the URL orders go to. `answered_by`: the id of the node that answers; `partition_states`: of the partitions in its
    process.
    """

    cluster_id: str
    answered_by: int
    controller_id: int
    controller_rest: str | None
    metadata_offset: int
    nodes: list[NodeView]
    topics: int
    partitions: int
    partitions_without_leader: int
    partition_states: dict[str, int]


class PartitionSummary(BaseModel):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]


class TopicView(BaseModel):
    name: str
    topic_id: str
    is_internal: bool
    partitions: list[PartitionSummary]
    configs: dict[str, str]


class TopicLine(BaseModel):
    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    replication_factor: int


class TopicPage(BaseModel):
    """`next_after`: what to ask for next as `after`; null on the last page."""

    topics: list[TopicLine]
    next_after: str | None


class StateChangeView(BaseModel):
    at: datetime
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    reason: str


class HistoryView(BaseModel):
    """Newest first."""

    changes: list[StateChangeView]


class PartitionView(BaseModel):
    """`owner` is `leader`: the node that writes it; -1: nobody does now. `high_watermark`: null where it is not known.

    `high_watermark_floor`: what is known to have been acknowledged when the owner was named. `history`: newest first.
    """

    topic: str
    topic_id: str
    partition: int
    owner: int
    leader_epoch: int
    partition_epoch: int
    replicas: list[int]
    isr: list[int]
    high_watermark_floor: int
    high_watermark: int | None
    history: list[StateChangeView]


class SegmentLine(BaseModel):
    """Offsets [base_offset, end_offset); the end is null while the segment is open. `nodes`: `host:port` of DataNodes.

    `valid_bytes` of `file_bytes` belong to the log.
    """

    path: str
    leader_epoch: int
    roll: int
    base_offset: int | None
    end_offset: int | None
    valid_bytes: int
    file_bytes: int
    is_open: bool
    nodes: list[str]


class SegmentPage(BaseModel):
    """In the order of the log, `count` in all. `next_skip`: what to ask for next as `skip`; null on the last page."""

    topic: str
    partition: int
    count: int
    log_start_offset: int | None
    segments: list[SegmentLine]
    next_skip: int | None


class MoveView(BaseModel):
    topic: str
    partition: int
    from_node: int
    to_node: int
    reason: str


class PlanView(BaseModel):
    """What an order would do. At most 1,000 of `move_count` moves are listed; `start`, `stop` are node ids."""

    summary: str
    move_count: int
    moves: list[MoveView]
    start: list[int]
    stop: list[int]


class StepView(BaseModel):
    """`number` counts from 0; the newest steps are kept."""

    number: int
    at: datetime
    text: str


class TaskView(BaseModel):
    """`progress` goes from 0 to 1. `version` goes up with every change: `/events?after=` waits for a later one."""

    id: str
    kind: str
    subject: str
    state: TaskState
    progress: float = Field(ge=0, le=1)
    steps: list[StepView]
    started_at: datetime
    ended_at: datetime | None
    error: str | None
    version: int


class TaskPage(BaseModel):
    """Newest first."""

    tasks: list[TaskView]


# --- out of an image


def at_ms(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(max(0, timestamp_ms) / 1000, UTC)


def url_of(address: tuple[str, int], scheme: str) -> str:
    return f"{scheme}://{_text_of(address)}"


def _text_of(address: tuple[str, int] | None) -> str | None:
    if address is None:
        return None
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def node_view(image: MetadataImage, node: Node, partitions_led: int, load: NodeLoad | None) -> NodeView:
    has_proxy = node.port >= 0
    return NodeView(
        node_id=node.node_id,
        host=node.host if has_proxy else None,
        port=node.port if has_proxy else None,
        rack=node.rack,
        roles=sorted(node.roles),
        internal=_text_of(node.internal),
        rest=_text_of(node.rest),
        epoch=node.epoch,
        is_draining=node.is_draining,
        is_controller=node.node_id == image.controller_id,
        partitions_led=partitions_led,
        load=None
        if load is None
        else LoadView(
            partitions=load.partitions,
            bytes_in_s=load.bytes_in_s,
            bytes_out_s=load.bytes_out_s,
            requests_s=load.requests_s,
        ),
    )


def topic_line(topic: TopicImage) -> TopicLine:
    return TopicLine(
        name=topic.name,
        topic_id=str(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas) if topic.partitions else 0,
    )


def topic_view(topic: TopicImage) -> TopicView:
    return TopicView(
        name=topic.name,
        topic_id=str(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=[
            PartitionSummary(
                partition=partition.partition,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=list(partition.replicas),
                isr=list(partition.isr),
            )
            for partition in topic.partitions
        ],
        configs=dict(topic.configs),
    )


def change_view(topic: str, partition: int, change: StateChange) -> StateChangeView:
    return StateChangeView(
        at=at_ms(change.timestamp_ms),
        topic=topic,
        partition=partition,
        leader=change.leader,
        leader_epoch=change.leader_epoch,
        reason=change.reason,
    )


def partition_view(
    topic: TopicImage, partition: PartitionImage, high_watermark: int | None, history: list[StateChangeView]
) -> PartitionView:
    return PartitionView(
        topic=topic.name,
        topic_id=str(topic.topic_id),
        partition=partition.partition,
        owner=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        high_watermark_floor=partition.high_watermark_floor,
        high_watermark=high_watermark,
        history=history,
    )


def segment_line(segment: SegmentView, nodes: tuple[str, ...]) -> SegmentLine:
    return SegmentLine(
        path=segment.path,
        leader_epoch=segment.leader_epoch,
        roll=segment.roll,
        base_offset=segment.base_offset,
        end_offset=segment.end_offset,
        valid_bytes=segment.valid_bytes,
        file_bytes=segment.file_bytes,
        is_open=segment.is_open,
        nodes=list(nodes),
    )


def plan_view(plan: Plan) -> PlanView:
    return PlanView(
        summary=plan.summary,
        move_count=len(plan.moves),
        moves=[
            MoveView(
                topic=move.topic_name,
                partition=move.partition,
                from_node=move.from_node,
                to_node=move.to_node,
                reason=move.reason,
            )
            for move in plan.moves[:MOVES_SHOWN_MAX]
        ],
        start=list(plan.start),
        stop=list(plan.stop),
    )


def task_view(task: Task) -> TaskView:
    return TaskView(
        id=task.task_id,
        kind=task.kind,
        subject=task.subject,
        state=task.state,
        progress=task.progress,
        steps=[StepView(number=step.number, at=at_ms(step.at_ms), text=step.text) for step in task.steps],
        started_at=at_ms(task.started_at_ms),
        ended_at=None if task.ended_at_ms is None else at_ms(task.ended_at_ms),
        error=task.error,
        version=task.version,
    )


def led_by_node(image: MetadataImage) -> dict[int, int]:
    return dict(led_counts(image))
