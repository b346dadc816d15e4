"""Topics are created and deleted, and get more partitions; and their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import topic_of
from bmq.admin.rest.config_pages import CONFIGS_MAX, ConfigName, ConfigValue, DoneView
from bmq.admin.rest.parameters import NUMBER, DryRun, TopicName
from bmq.admin.rest.partition_offsets import EARLIEST, LATEST, offsets_of
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.user_requests import CHANGE_WAIT_MS, UserRequests, check, user_requests
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest

PARTITIONS_MAX: Final = 10_000
_DEFAULT: Final = -1


class TopicForm(BaseModel):
    """`partitions`, `replication_factor` null: as the cluster's defaults."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9._-]{1,249}$", max_length=249)]
    partitions: Annotated[int | None, Field(ge=1, le=PARTITIONS_MAX), NUMBER] = None
    replication_factor: Annotated[int | None, Field(ge=1, le=32_767), NUMBER] = None
    configs: Annotated[dict[ConfigName, ConfigValue], Field(max_length=CONFIGS_MAX)] = {}


class TopicMadeView(BaseModel):
    """A topic that was created, or with `dry_run` could be."""

    name: str
    partitions: int
    replication_factor: int


class PartitionsForm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: Annotated[int, Field(ge=1, le=PARTITIONS_MAX, description="Partitions of the topic afterwards"), NUMBER]


class PartitionOffsets(BaseModel):
    """Offsets [start_offset, end_offset); null where the owner does not answer, as `problem` says.

    `size_bytes`: of its log, where this node owns the partition and has started it.
    """

    partition: int
    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None
    problem: str | None


class TopicOffsets(BaseModel):
    topic: str
    partitions: list[PartitionOffsets]


def topic_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.post(
        "/v1/topics",
        status_code=201,
        responses={
            200: {"model": TopicMadeView, "description": "With `dry_run`: what would be made."},
            **errors(400, 409, 413, 422, 503, 504),
        },
    )
    async def create(request: Request, form: TopicForm, response: Response, dry_run: DryRun = False) -> TopicMadeView:
        """Make a topic."""
        asked = _creation(form, is_dry_run=dry_run)
        answer = await user_requests(sources, request).ask(ApiKey.CREATE_TOPICS, asked)
        (result,) = answer.topics
        check(result.error_code, result.error_message)
        if dry_run:
            response.status_code = 200
        else:
            response.headers["Location"] = f"/v1/topics/{form.name}"
        return TopicMadeView(
            name=form.name, partitions=result.num_partitions, replication_factor=result.replication_factor
        )

    @pages.delete("/v1/topics/{name}", responses=errors(404, 409, 422, 503, 504))
    async def delete(request: Request, name: TopicName) -> DoneView:
        """Delete a topic with all its records. It cannot be undone."""
        topic_of(sources.image(), name)
        asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=CHANGE_WAIT_MS)
        answer = await user_requests(sources, request).ask(ApiKey.DELETE_TOPICS, asked)
        (result,) = answer.responses
        check(result.error_code, result.error_message)
        return DoneView(summary=f"Topic {name} is deleted.")

    @pages.post("/v1/topics/{name}/partitions", responses=errors(400, 404, 409, 413, 422, 503, 504))
    async def add_partitions(
        request: Request, name: TopicName, form: PartitionsForm, dry_run: DryRun = False
    ) -> DoneView:
        """Give a topic more partitions. Keys go to other partitions from then on."""
        before = len(topic_of(sources.image(), name).partitions)
        asked = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=form.count, assignments=None)],
            timeout_ms=CHANGE_WAIT_MS,
            validate_only=dry_run,
        )
        answer = await user_requests(sources, request).ask(ApiKey.CREATE_PARTITIONS, asked)
        (result,) = answer.results
        check(result.error_code, result.error_message)
        return DoneView(summary=f"Topic {name}: {before} partitions become {form.count}.")

    @pages.get("/v1/topics/{name}/offsets", responses=errors(404, 422, 503, 504))
    async def offsets(request: Request, name: TopicName) -> TopicOffsets:
        """The first offset and the end of each partition. Idle partitions with records are started for it."""
        topic = topic_of(sources.image(), name)
        numbers = [one.partition for one in topic.partitions]
        return await _offsets(user_requests(sources, request), name, numbers)

    return pages


def _creation(form: TopicForm, *, is_dry_run: bool) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=form.name,
        num_partitions=form.partitions or _DEFAULT,
        replication_factor=form.replication_factor or _DEFAULT,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in form.configs.items()],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=CHANGE_WAIT_MS, validate_only=is_dry_run)


async def _offsets(requests: UserRequests, name: str, numbers: Sequence[int]) -> TopicOffsets:
    """Raises ProblemError."""
    starts = await offsets_of(requests, name, numbers, EARLIEST)
    ends = await offsets_of(requests, name, numbers, LATEST)
    asked = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=name, partitions=numbers)])
    directories = await requests.ask(ApiKey.DESCRIBE_LOG_DIRS, asked)
    sizes = {
        one.partition_index: one.partition_size
        for directory in directories.results
        for each in directory.topics
        for one in each.partitions
    }
    return TopicOffsets(topic=name, partitions=[_line(one, starts, ends, sizes.get(one)) for one in numbers])


def _line(
    number: int, starts: Mapping[int, tuple[int, int]], ends: Mapping[int, tuple[int, int]], size_bytes: int | None
) -> PartitionOffsets:
    missing = (-1, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    (start, start_code), (end, end_code) = starts.get(number, missing), ends.get(number, missing)
    code = start_code or end_code
    return PartitionOffsets(
        partition=number,
        start_offset=None if start_code else start,
        end_offset=None if end_code else end,
        size_bytes=size_bytes,
        problem=ErrorCode(code).name if code else None,
    )
