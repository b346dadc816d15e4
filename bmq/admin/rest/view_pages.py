"""Views of topics: making one, and saying what a filter does with a record."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import UnknownSubject
from bmq.admin.rest.authorization import sees_topic
from bmq.admin.rest.parameters import NUMBER, DryRun
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.view_creation import ViewCreation
from bmq.metadata.image import MetadataImage
from bmq.protocol.topic_names import NAME_LENGTH_MAX
from bmq.views.filter_error import InvalidFilter
from bmq.views.predicates import Truth
from bmq.views.record_fields import RecordFields
from bmq.views.view_filter import FILTER_BYTES_MAX, compiled

EXPLAINED_AT_ONCE_MAX: Final = 2
"""Filters that are parsed at the same time, each in a thread; others wait."""
HEADERS_MAX: Final = 1_000
_TEXT_MAX: Final = 10_000
_INT64_MAX: Final = 2**63 - 1
_TRUTHS: Final[dict[Truth, Literal["true", "false", "unknown"]]] = {True: "true", False: "false", None: "unknown"}

TopicField = Annotated[str, Field(pattern="^[a-zA-Z0-9._-]{1,249}$", max_length=NAME_LENGTH_MAX)]
FilterField = Annotated[
    str, Field(min_length=1, max_length=FILTER_BYTES_MAX, description="A condition of SQL: tag IN ('paid', 'sent')")
]
Text = Annotated[str, Field(max_length=_TEXT_MAX)]


class ViewForm(BaseModel):
    """A view `name` of a topic that shows the records that pass `filter`."""

    model_config = ConfigDict(extra="forbid")

    name: TopicField
    topic: TopicField
    filter: FilterField


class ViewMadeView(BaseModel):
    """`summary`: what was done, or with `dry_run` would be."""

    summary: str
    name: str
    topic: str
    filter: str


class HeaderForm(BaseModel):
    """A header of a record, as UTF-8. Names may come twice."""

    model_config = ConfigDict(extra="forbid")

    name: Text
    value: Text | None


class RecordForm(BaseModel):
    """What a filter may look at. `key`: as UTF-8; null: none. `timestamp_ms`: null: none."""

    model_config = ConfigDict(extra="forbid")

    headers: Annotated[list[HeaderForm], Field(max_length=HEADERS_MAX)] = []
    key: Text | None = None
    timestamp_ms: Annotated[int | None, Field(ge=0, le=_INT64_MAX), NUMBER] = None
    offset: Annotated[int, Field(ge=0, le=_INT64_MAX), NUMBER] = 0
    partition: Annotated[int, Field(ge=0, le=2**31 - 1), NUMBER] = 0

    def fields(self) -> RecordFields:
        return RecordFields(
            None if self.key is None else self.key.encode(),
            [(one.name.encode(), None if one.value is None else one.value.encode()) for one in self.headers],
            -1 if self.timestamp_ms is None else self.timestamp_ms,
            self.offset,
            self.partition,
        )


class ExplainForm(BaseModel):
    """Either `view`, whose filter is asked, or `filter`."""

    model_config = ConfigDict(extra="forbid")

    view: TopicField | None = None
    filter: FilterField | None = None
    record: RecordForm = RecordForm()


class FilterExplanationView(BaseModel):
    """`truth`: of the condition for this record; `passes` only if it is true, and not if it is unknown."""

    filter: str
    passes: bool
    truth: Literal["true", "false", "unknown"]


_MADE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": ViewMadeView, "description": "It is there already; or, with `dry_run`, what would be done."},
    201: {
        "model": ViewMadeView,
        "description": "It was made.",
        "headers": {"Location": {"description": "Where it is.", "schema": {"type": "string"}}},
    },
    **errors(400, 409, 413, 422, 503, 504),
}


def view_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    threads = asyncio.Semaphore(EXPLAINED_AT_ONCE_MAX)

    async def predicate_of(condition: str) -> Any:
        """Parsing takes milliseconds, and loading the parser a third of a second. Raises ProblemError."""
        async with threads:
            try:
                return (await asyncio.to_thread(compiled, condition)).predicate
            except InvalidFilter as error:
                raise ProblemError(422, f"body.filter: {error}") from error

    @pages.post("/v1/views", status_code=201, responses=_MADE)
    async def create(form: ViewForm, response: Response, dry_run: DryRun = False) -> ViewMadeView:
        """Make a view: a read-only topic with the records of another one that pass a filter. Asking again for the same
        changes nothing.
        """
        create_topics = sources.create_topics()
        if create_topics is None:
            raise ProblemError(503, "this node does not serve yet; ask again in a moment")
        await predicate_of(form.filter)
        creation = ViewCreation(create_topics, sources.image)
        is_new = await creation.create(form.name, form.topic, form.filter, is_dry_run=dry_run)
        if dry_run or not is_new:
            response.status_code = 200
        else:
            response.headers["Location"] = f"/v1/topics/{form.name}"
        summary = f"View {form.name} of topic {form.topic} is {'made' if is_new else 'there already'}."
        return ViewMadeView(summary=summary, name=form.name, topic=form.topic, filter=form.filter)

    @pages.post("/v1/views/explain", responses=errors(400, 404, 413, 422))
    async def explain(request: Request, form: ExplainForm) -> FilterExplanationView:
        """Whether a record passes the filter of a view, or a filter that is no view yet."""
        if (form.view is None) == (form.filter is None):
            raise ProblemError(422, "name a view in `view`, or give a `filter`, and not both")
        condition = form.filter
        if form.view is not None:
            condition = _filter_of(sources.image(), form.view, is_seen=sees_topic(request.scope, form.view))
        assert condition is not None
        truth: Truth = (await predicate_of(condition))(form.record.fields())
        return FilterExplanationView(filter=condition, passes=truth is True, truth=_TRUTHS[truth])

    return pages


def _filter_of(image: MetadataImage, name: str, *, is_seen: bool) -> str:
    """Raises UnknownSubject: also for a view that the client may not describe."""
    topic = image.topics.get(name) if is_seen else None
    if topic is None or topic.view is None:
        raise UnknownSubject(f"there is no view {name}")
    return topic.view.filter
