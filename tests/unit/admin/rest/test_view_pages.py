"""Views through REST: made by the controller's rules, refused with its sentences, and filters explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from bmq.controller.topics import TopicLimits, decide_create_topics
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import TopicImage, ViewImage
from bmq.metadata.view_configs import VIEW_FILTER, VIEW_OF
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.request_context import RequestContext, is_own
from tests.fakes.cluster_controller import FakeController
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

FORM = {"name": "paid", "topic": "orders", "filter": "tag = 'paid'"}


class DecidedTopics:
    """Answers CreateTopics by the controller's own decision. `error`: raised, or the code of the answer, instead."""

    def __init__(self, controller: FakeController, error: KafkaError | ErrorCode | None = None) -> None:
        self.error = error
        self.requests: list[CreateTopicsRequest] = []
        self._controller = controller
        self._ids: Iterator[int] = count(500)

    async def __call__(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        assert is_own(context)
        self.requests.append(request)
        if isinstance(self.error, KafkaError):
            raise self.error
        if self.error is not None:
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=request.topics[0].name, error_code=self.error)]
            )
        ids = [UUID(int=next(self._ids)) for _ in request.topics]
        image = self._controller.image
        decided = decide_create_topics(image, request, BrokerConfigs({}, {}, {}), TopicLimits(), ids)
        for result, topic_id in zip(decided.response.topics, ids, strict=True):
            if not result.error_code and not request.validate_only:
                (asked,) = [one for one in request.topics if one.name == result.name]
                configs = {one.name: one.value or "" for one in asked.configs}
                base = image.topics[configs[VIEW_OF]]
                shown = ViewImage(base.name, base.topic_id, configs[VIEW_FILTER])
                view = TopicImage(result.name, topic_id, base.partitions, configs, base.log_config, view=shown)
                self._controller.image = replace(
                    image, topics={**image.topics, view.name: view}, views={view.topic_id: view}
                )
        response: CreateTopicsResponse = decided.response
        return response


async def test_a_view_is_made_once() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = topics = DecidedTopics(cluster.controller)
        plan = await cluster.post("/v1/views", 200, FORM, dry_run="true")
        assert plan == {"summary": "View paid of topic orders is made.", **FORM}
        assert "paid" not in cluster.image.topics
        response = await cluster.client.post("/v1/views", json=FORM)
        assert (response.status_code, response.headers["location"], response.json()) == (201, "/v1/topics/paid", plan)
        made = cluster.image.topics["paid"].view
        assert made is not None and (made.base_name, made.filter) == ("orders", "tag = 'paid'")
        again = await cluster.post("/v1/views", 200, FORM)
        assert again == {"summary": "View paid of topic orders is there already.", **FORM}
        assert [one.validate_only for one in topics.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("changed", "status", "sentence"),
    [
        ({"topic": "none"}, 409, "There is no topic 'none' that a view could show"),
        ({"topic": "paid"}, 409, "A view cannot show itself: bmq.view.of is paid"),
        ({"topic": "__consumer_offsets"}, 409, "'__consumer_offsets' is an internal topic, which views do not show"),
        ({"name": "t01"}, 409, "Topic 't01' already exists."),
        ({"name": "orders", "topic": "t01"}, 409, "Topic 'orders' already exists."),
        ({"filter": "tag ="}, 422, "body.filter: the filter is not a condition of SQL"),
        ({"filter": " "}, 422, "body.filter: the filter is empty"),
        ({"filter": "ü" * 5_000}, 422, "body.filter: the filter has 10000 bytes, 8192 are allowed"),
        ({"filter": "value = 'x'"}, 422, "body.filter: a filter does not look at the value of a record"),
        ({"filter": "tag = 1", "colour": "red"}, 422, "body.colour: Extra inputs are not permitted"),
        ({"name": "a/b"}, 422, "body.name"),
    ],
)
async def test_what_is_refused(changed: dict[str, Any], status: int, sentence: str) -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = DecidedTopics(cluster.controller)
        before = cluster.image
        for dry_run in ("true", "false"):
            problem = await cluster.post("/v1/views", status, {**FORM, **changed}, dry_run=dry_run)
            assert problem["detail"].startswith(sentence)
        assert cluster.image is before


async def test_another_view_of_this_name_is_not_the_same() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = DecidedTopics(cluster.controller)
        await cluster.post("/v1/views", 201, FORM)
        for changed in ({"topic": "t01"}, {"filter": "tag = 'sent'"}):
            problem = await cluster.post("/v1/views", 409, {**FORM, **changed})
            assert problem["detail"] == "Topic 'paid' already exists."


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller answered"), 504),
        (ErrorCode.REQUEST_TIMED_OUT, 504),
        (ErrorCode.NOT_CONTROLLER, 503),
        (ErrorCode.KAFKA_STORAGE_ERROR, 503),
    ],
)
async def test_a_controller_that_is_away(error: KafkaError | ErrorCode, status: int) -> None:
    async with RestCluster() as cluster:
        await cluster.post("/v1/views", 503, FORM)
        cluster.create_topics = DecidedTopics(cluster.controller, error)
        await cluster.post("/v1/views", status, FORM)


async def test_filters_are_explained() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = DecidedTopics(cluster.controller)
        await cluster.post("/v1/views", 201, {**FORM, "filter": "tag = 'paid' AND key = '7' AND timestamp > 5"})
        headers = [{"name": "bmq-tag", "value": None}, {"name": "bmq-tag", "value": "paid"}]
        for key, timestamp_ms, truth in (("7", 6, "true"), ("7", 5, "false"), ("7", None, "unknown")):
            record = {"headers": headers, "key": key, "timestamp_ms": timestamp_ms}
            told = await cluster.post("/v1/views/explain", 200, {"view": "paid", "record": record})
            assert (told["truth"], told["passes"]) == (truth, truth == "true")
        told = await cluster.post("/v1/views/explain", 200, {"filter": "partition = 3", "record": {"partition": 3}})
        assert told == {"filter": "partition = 3", "passes": True, "truth": "true"}


@pytest.mark.parametrize(
    ("form", "status", "sentence"),
    [
        ({}, 422, "name a view in `view`, or give a `filter`, and not both"),
        ({"view": "paid", "filter": "TRUE"}, 422, "name a view in `view`, or give a `filter`, and not both"),
        ({"view": "orders"}, 404, "there is no view orders"),
        ({"view": "none"}, 404, "there is no view none"),
        ({"filter": "tag LIKE 'a' ESCAPE 'xy'"}, 422, "body.filter: ESCAPE stands behind LIKE, with one character"),
        ({"filter": "TRUE", "record": {"value": "x"}}, 422, "body.record.value: Extra inputs are not permitted"),
    ],
)
async def test_what_is_not_explained(form: dict[str, Any], status: int, sentence: str) -> None:
    async with RestCluster() as cluster:
        problem = await cluster.post("/v1/views/explain", status, form)
        assert problem["detail"] == sentence


async def test_text_that_is_no_unicode_is_refused() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = DecidedTopics(cluster.controller)
        for path, content in (
            ("/v1/views", b'{"name": "v", "topic": "orders", "filter": "tag = \'\\ud800\'"}'),
            ("/v1/views/explain", b'{"filter": "TRUE", "record": {"key": "\\ud800"}}'),
        ):
            response = await cluster.client.post(path, content=content, headers={"Content-Type": "application/json"})
            assert response.status_code == 422, response.text
