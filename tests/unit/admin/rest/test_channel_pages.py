"""Channels through REST: made, altered, deleted, shown, and pushed to agents that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from bmq.admin.rest import channel_agent_pages
from bmq.channels.channel_set import parse_channel_set
from bmq.metadata.image import MetadataImage, ViewImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.request_context import RequestContext
from tests.fakes.cluster_controller import FakeController, topic_image
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

FORM = {"name": "clicks", "topic": "orders", "linger_ms": 50}
PATH = "/v1/channels/clicks"
MADE = "Channel clicks leads to topic orders."


class CreatedTopics:
    """Answers CreateTopics, and puts the topic into the image. `refusal`: the code of the answer instead."""

    def __init__(self, controller: FakeController, refusal: ErrorCode = ErrorCode.NONE) -> None:
        self.requests: list[CreateTopicsRequest] = []
        self._controller, self._refusal, self._numbers = controller, refusal, count(800)

    async def __call__(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        self.requests.append(request)
        (asked,) = request.topics
        if not self._refusal and not request.validate_only:
            topic, image = topic_image(asked.name, next(self._numbers), [1]), self._controller.image
            self._controller.image = replace(
                image,
                topics={**image.topics, topic.name: topic},
                topics_by_id={**image.topics_by_id, topic.topic_id: topic},
            )
        result = CreatableTopicResult(name=asked.name, error_code=self._refusal, error_message=None)
        return CreateTopicsResponse(topics=[result])


def without_topic(image: MetadataImage, name: str) -> MetadataImage:
    return replace(image, topics={known: topic for known, topic in image.topics.items() if known != name})


async def until(is_so: Callable[[], bool]) -> None:
    """A few turns of the loop, while which something begins to wait."""
    for _ in range(1_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")


async def test_a_channel_is_made_shown_altered_and_deleted() -> None:
    async with RestCluster() as cluster:
        made = await cluster.put(PATH, 201, FORM)
        shown = await cluster.get(PATH)
        assert made == {"summary": MADE, "changes": [], "version": 1, "channel": shown}
        assert (shown["version"], shown["created_at"], shown["topic_problem"]) == (1, "2023-11-14T22:13:20Z", None)
        assert (shown["channel"]["linger_ms"], shown["channel"]["acks"]) == (50, "all")
        again = await cluster.put(PATH, 200, shown["channel"])
        assert (again["summary"], again["version"]) == ("Channel clicks is so already.", 1)
        altered = await cluster.put(PATH, 200, {**shown["channel"], "enabled": False}, if_version=1)
        assert (altered["changes"], altered["version"]) == (["enabled is false; it was true"], 2)
        late = await cluster.put(PATH, 409, {**shown["channel"], "acks": "1"}, if_version=1)
        assert late["detail"].startswith("channel clicks has version 2, not 1")
        gone = await cluster.delete(PATH)
        assert (gone["version"], gone["channel"]) == (3, None)
        assert (await cluster.get(PATH, 404))["detail"] == "there is no channel clicks"
        await cluster.delete(PATH, 404)


async def test_a_dry_run_answers_the_whole_result_and_applies_nothing() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = topics = CreatedTopics(cluster.controller)
        before = cluster.image
        plan = await cluster.put(PATH, 200, FORM, dry_run="true")
        assert (plan["summary"], plan["version"], plan["channel"]["channel"]["linger_ms"]) == (MADE, 1, 50)
        plan = await cluster.put(PATH, 200, {**FORM, "topic": "none"}, dry_run="true", create_topic="true")
        assert plan["channel"]["topic_problem"] is None
        assert [request.validate_only for request in topics.requests] == [True]
        assert cluster.image is before
        await cluster.put(PATH, 201, FORM)
        before = cluster.image
        plan = await cluster.put(PATH, 200, {**FORM, "linger_ms": 7}, dry_run="true")
        assert (plan["changes"], plan["version"]) == (["linger_ms is 7; it was 50"], 2)
        assert (await cluster.delete(PATH, dry_run="true"))["version"] == 2
        assert cluster.image is before


async def test_a_missing_topic_is_refused_or_created() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = topics = CreatedTopics(cluster.controller)
        form = {**FORM, "topic": "new"}
        problem = await cluster.put(PATH, 409, form)
        assert problem["detail"] == "there is no topic new; create it first, or ask for it with create_topic"
        made = await cluster.put(PATH, 201, form, create_topic="true", partitions=6)
        assert made["channel"]["topic_problem"] is None
        assert [(one.topics[0].name, one.topics[0].num_partitions) for one in topics.requests] == [("new", 6)]
        await cluster.put("/v1/channels/b", 201, {**form, "name": "b"}, create_topic="true")
        assert len(topics.requests) == 1  # it is there already


@pytest.mark.parametrize(
    ("code", "status", "sentence"),
    [
        (ErrorCode.POLICY_VIOLATION, 409, "topic new cannot be created: POLICY_VIOLATION"),
        (ErrorCode.REQUEST_TIMED_OUT, 504, "topic new cannot be created: REQUEST_TIMED_OUT"),
    ],
)
async def test_a_topic_that_cannot_be_created_leaves_no_channel(code: ErrorCode, status: int, sentence: str) -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = CreatedTopics(cluster.controller, code)
        problem = await cluster.put(PATH, status, {**FORM, "topic": "new"}, create_topic="true")
        assert problem["detail"] == sentence
        assert cluster.image.channels == {}


async def test_what_is_refused_creates_no_topic() -> None:
    async with RestCluster() as cluster:
        cluster.create_topics = topics = CreatedTopics(cluster.controller)
        await cluster.put(PATH, 409, {**FORM, "topic": "new"}, create_topic="true", if_version=7)
        assert topics.requests == []


async def test_a_channel_whose_topic_was_deleted_stays_and_says_so() -> None:
    async with RestCluster() as cluster:
        await cluster.put(PATH, 201, FORM)
        cluster.controller.image = without_topic(cluster.image, "orders")
        sentence = "there is no topic orders; create it first, or ask for it with create_topic"
        assert (await cluster.get(PATH))["topic_problem"] == sentence
        page = await cluster.get("/v1/channels")
        assert page["states"]["clicks"]["topic_problem"] == sentence
        assert [each["name"] for each in page["channels"]] == ["clicks"]
        view = replace(topic_image("orders", 1, [1]), view=ViewImage("t00", UUID(int=1), "TRUE"))
        cluster.controller.image = replace(cluster.image, topics={**cluster.image.topics, "orders": view})
        assert (await cluster.get(PATH))["topic_problem"].startswith("orders is a view of topic t00")


@pytest.mark.parametrize(
    ("changed", "query", "status", "sentence"),
    [
        ({"name": "other"}, {}, 422, "body.name is other, and the path has clicks"),
        ({"colour": "red"}, {}, 422, "body.colour: Extra inputs are not permitted"),
        ({"sampling_rate": 2}, {}, 422, "body.sampling_rate: Input should be less than or equal to 1"),
        ({"key": {"by": "header"}}, {}, 422, "body.key: a key by header needs header"),
        ({"topic": "__consumer_offsets"}, {}, 422, "body.topic: __consumer_offsets is an internal topic"),
        (
            {"schema_check": "json_schema", "json_schema": '{"type": "objekt"}'},
            {},
            422,
            "json_schema: the value is not valid under any of",
        ),
        ({}, {"partitions": 3}, 422, "partitions counts for a topic that is created, and create_topic is false"),
        ({}, {"if_version": 4}, 409, "there is no channel clicks any more; it was deleted"),
    ],
)
async def test_what_is_refused(changed: dict[str, Any], query: dict[str, Any], status: int, sentence: str) -> None:
    async with RestCluster() as cluster:
        before = cluster.image
        for dry_run in ("true", "false"):
            problem = await cluster.put(PATH, status, {**FORM, **changed}, **query, dry_run=dry_run)
            assert problem["detail"].startswith(sentence)
        assert cluster.image is before


async def test_only_the_active_controller_changes_channels_and_every_node_shows_them() -> None:
    async with RestCluster(node_id=2) as cluster:
        cluster.active = None
        for response in (
            await cluster.client.put(PATH, json=FORM, params={"dry_run": "true"}),
            await cluster.client.delete(PATH, params={"dry_run": "true"}),
        ):
            assert response.status_code == 307
            assert response.headers["location"] == f"http://10.0.0.1:8080{PATH}?dry_run=true"
        assert (await cluster.get("/v1/channels"))["version"] == 0
    async with RestCluster() as cluster:
        cluster.controller.error = KafkaError(ErrorCode.NOT_CONTROLLER)
        await cluster.put(PATH, 503, FORM)
        assert cluster.image.channels == {}


# --- agents


async def test_an_agent_that_waits_is_told_of_a_change_at_once() -> None:
    async with RestCluster() as cluster:
        watch, path = cluster.controller.watch, "/v1/channels/changes"
        polls = [
            asyncio.create_task(cluster.get(path, after=0, wait_ms=60_000, agent=f"a{number}", applied=0))
            for number in range(20)
        ]
        await until(lambda: watch.waiting_count == 20)
        await cluster.put(PATH, 201, FORM)
        async with asyncio.timeout(10):
            told = await asyncio.gather(*polls)
        assert all(one == told[0] for one in told)
        known = parse_channel_set(told[0])
        assert (known.version, known.channels["clicks"].linger_ms) == (1, 50)
        assert told[0]["cluster_id"] == "cluster"
        assert watch.waiting_count == 0


class ChangedBehindTheLook(RestCluster):
    """Its channels change in the turn of the loop in which their version was looked at."""

    is_due = False

    @property
    def image(self) -> MetadataImage:
        found = super().image
        if self.is_due:
            self.is_due = False
            asyncio.get_running_loop().call_soon(self._change)
        return found

    def _change(self) -> None:
        old = self.controller.image
        self.controller.image = replace(old, channels_version=old.channels_version + 1)
        self.controller.watch.image_changed(old, self.controller.image)


async def test_a_change_right_behind_the_look_is_told_at_once() -> None:
    async with ChangedBehindTheLook() as cluster:
        cluster.is_due = True
        async with asyncio.timeout(10):
            told = await cluster.get("/v1/channels/changes", after=0, wait_ms=60_000)
        assert told["version"] == 1


async def test_what_is_known_late_is_told_at_once_and_no_news_after_the_wait() -> None:
    async with RestCluster() as cluster:
        await cluster.put(PATH, 201, FORM)
        for after in (-1, 0):
            assert (await cluster.get("/v1/channels/changes", after=after, wait_ms=60_000))["version"] == 1
        # Past what this node knows: another node told it, or the cluster was made anew.
        for after in (1, 7):
            same = await cluster.get("/v1/channels/changes", after=after, wait_ms=1)
            assert (same["version"], len(same["channels"])) == (1, 1)
        await cluster.get("/v1/channels/changes", 422, wait_ms=60_001)
        await cluster.get("/v1/channels/changes", 422, agent="a b")


async def test_a_node_that_stops_lets_agents_go() -> None:
    async with RestCluster() as cluster:
        watch = cluster.controller.watch
        poll = asyncio.create_task(cluster.get("/v1/channels/changes", after=0, wait_ms=60_000))
        await until(lambda: watch.waiting_count == 1)
        watch.close()
        assert (await poll)["version"] == 0
        problem = await cluster.get("/v1/channels/changes", 503, after=0, wait_ms=60_000)
        assert problem["detail"] == "this node stops; ask another one"


async def test_a_node_that_is_not_ready_tells_agents_nothing() -> None:
    async with RestCluster() as cluster:
        cluster.is_ready = False
        problem = await cluster.get("/v1/channels/changes", 503, agent="a", applied=3)
        assert problem["detail"] == "this node is not ready; ask another one"
        assert (await cluster.get("/v1/channels/agents"))["count"] == 0


async def test_an_agent_that_goes_away_is_not_waited_for() -> None:
    async with RestCluster() as cluster:
        watch = cluster.controller.watch
        scope = {
            "type": "http", "method": "GET", "path": "/v1/channels/changes", "raw_path": b"/v1/channels/changes",
            "query_string": b"after=0&wait_ms=60000&agent=gone", "headers": [], "client": ("10.0.0.7", 5),
            "http_version": "1.1", "scheme": "http", "server": ("node", 80), "root_path": "",
        }  # fmt: skip
        messages: asyncio.Queue[Any] = asyncio.Queue()
        messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        answered = asyncio.create_task(cluster.application(scope, messages.get, send))
        await until(lambda: watch.waiting_count == 1)
        (seen,) = (await cluster.get("/v1/channels/agents"))["agents"]
        assert (seen["id"], seen["address"], seen["is_waiting"], seen["applied_version"]) == (
            "gone", "10.0.0.7", True, None,
        )  # fmt: skip
        messages.put_nowait({"type": "http.disconnect"})
        async with asyncio.timeout(10):
            await answered
        assert watch.waiting_count == 0
        assert (await cluster.get("/v1/channels/agents"))["agents"][0]["is_waiting"] is False


async def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_agent_pages, "WAITING_MAX", 1)
    async with RestCluster() as cluster:
        path = "/v1/channels/changes"
        poll = asyncio.create_task(cluster.get(path, after=0, wait_ms=60_000))
        await until(lambda: cluster.controller.watch.waiting_count == 1)
        problem = await cluster.get(path, 503, after=0, wait_ms=60_000)
        assert problem["detail"] == "1 agents wait at this node already; ask another one"
        assert (await cluster.get(path, after=0))["version"] == 0
        await cluster.put(PATH, 201, FORM)
        assert (await poll)["version"] == 1


async def test_agents_are_listed_page_by_page_with_the_version_that_each_applies() -> None:
    async with RestCluster() as cluster:
        for number in range(3):
            await cluster.get("/v1/channels/changes", agent=f"host{number}", applied=number)
        page = await cluster.get("/v1/channels/agents", limit=2)
        assert (page["node_id"], page["version"], page["count"], page["next_after"]) == (1, 0, 3, "host1")
        assert [(each["id"], each["applied_version"]) for each in page["agents"]] == [("host0", 0), ("host1", 1)]
        last = await cluster.get("/v1/channels/agents", limit=2, after="host1")
        assert ([each["id"] for each in last["agents"]], last["next_after"]) == (["host2"], None)
        assert 0 <= last["agents"][0]["seen_ms_ago"] < 60_000


async def test_a_channel_of_a_later_release_is_named_with_the_reason() -> None:
    async with RestCluster() as cluster:
        await cluster.put(PATH, 201, FORM)
        texts = {**cluster.image.channels, "later": '{"colour": 1}'}
        cluster.controller.image = replace(cluster.image, channels=texts)
        for path in ("/v1/channels", "/v1/channels/changes"):
            page = await cluster.get(path)
            assert [each["name"] for each in page["channels"]] == ["clicks"]
            assert page["unreadable"]["later"].startswith("a later release of bmq wrote this channel")
        await cluster.get("/v1/channels/later", 409)
