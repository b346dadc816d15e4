"""The OpenAPI document keeps its word: schemathesis asks what it describes, and other things, and finds nothing amiss."""

from __future__ import annotations

from http import HTTPMethod
from typing import Any, Final
from uuid import UUID

import pytest
import requests
import schemathesis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.fakes.kafka_requests import FakeKafkaRequests
from tests.support.gate_share import few_in_gate
from tests.unit.admin.rest.cluster import RestCluster, application
from tests.unit.admin.rest.test_group_pages import Explainer
from tests.unit.admin.rest.test_lane_pages import Lanes
from tests.unit.admin.rest.test_timer_pages import Delayed
from tests.unit.admin.rest.test_view_pages import DecidedTopics

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

EXAMPLES_MAX: Final = 8
DOCUMENT: Final = application().openapi()
OPERATIONS: Final = [
    result.ok() for result in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations() if isinstance(result, Ok)
]
PATHS: Final = DOCUMENT["paths"]
# So that requests meet something; schemathesis would hardly guess them.
KNOWN: Final = {
    "name": "orders",
    "group": "g",
    "number": 0,
    "node_id": 2,
    "reservation": "0123456789abcdef",
    "transactional_id": "t",
    "offset": 0,
}

MADE_AT_ONCE: Final = {
    "/v1/topics": "201",
    "/v1/topics/{name}/partitions": "200",
    "/v1/topics/{name}/records": "201",
    "/v1/groups/{group}/offsets": "200",
}
"""Orders that any node carries out at once, and the status when they are done."""


def has_input(operation: Any) -> bool:
    described = PATHS[operation.path][operation.method]
    return bool(described.get("parameters") or described.get("requestBody"))


async def ask(cluster: RestCluster, case: Any) -> None:
    """Send the request, and hold the answer against the document.

    Some bodies have to make sense as a whole, too: they may be refused however well each part looks.
    """
    has_sense = (case.method, case.path) in (
        ("POST", "/v1/tables"),
        ("PUT", "/v1/tables/{name}"),
        ("PUT", "/v1/channels/{name}"),
        ("POST", "/v1/redrives"),
        ("POST", "/v1/views"),
        ("POST", "/v1/views/explain"),
        # A partition of the topic, bytes in one of two forms, at least one change.
        ("POST", "/v1/topics/{name}/records"),
        ("GET", "/v1/topics/{name}/records"),
        ("PATCH", "/v1/topics/{name}/configs"),
        ("POST", "/v1/indexes/{name}/query"),
    )
    excluded = [positive_data_acceptance] if has_sense else []
    prepared = requests.Request(**case.as_transport_kwargs(base_url="http://node")).prepare()
    assert prepared.method is not None and prepared.url is not None
    assert prepared.body is None or isinstance(prepared.body, str | bytes)
    headers: dict[Any, Any] = dict(prepared.headers)
    response = await cluster.client.request(prepared.method, prepared.url, headers=headers, content=prepared.body)
    assert response.status_code < 500, response.text
    case.validate_response(response, excluded_checks=excluded)


@few_in_gate("operation", OPERATIONS, ids=lambda operation: operation.label, every=5, others=in_campaign)
@settings(max_examples=EXAMPLES_MAX, phases=(Phase.explicit, Phase.generate))
@given(data=st.data())
async def test_what_is_described_is_answered_as_described(operation: Any, data: st.DataObject) -> None:
    case = data.draw(operation.as_strategy(GenerationMode.POSITIVE))
    async with RestCluster() as cluster:
        cluster.explainer, cluster.delayed, cluster.lanes = Explainer(), Delayed(), Lanes(UUID(int=1))
        cluster.create_topics = DecidedTopics(cluster.controller)
        cluster.kafka = FakeKafkaRequests()
        task = cluster.operations.tasks.open("drain", "node 2")
        cluster.operations.tasks.step(task, "begun")
        cluster.operations.tasks.end(task)
        if data.draw(st.booleans()):
            known = {**KNOWN, "task_id": task.task_id}
            case.path_parameters = {name: known[name] for name in case.path_parameters or {}}
        await ask(cluster, case)


@few_in_gate(
    "operation",
    [each for each in OPERATIONS if has_input(each)],
    ids=lambda each: each.label,
    every=5,
    others=in_campaign,
)
@settings(max_examples=EXAMPLES_MAX, phases=(Phase.explicit, Phase.generate))
@given(data=st.data())
async def test_what_is_not_described_is_refused(operation: Any, data: st.DataObject) -> None:
    case = data.draw(operation.as_strategy(GenerationMode.NEGATIVE))
    async with RestCluster() as cluster:
        cluster.explainer, cluster.delayed, cluster.lanes = Explainer(), Delayed(), Lanes(UUID(int=1))
        cluster.create_topics = DecidedTopics(cluster.controller)
        cluster.kafka = FakeKafkaRequests()
        await ask(cluster, case)


def test_every_operation_is_there() -> None:
    assert {(method.upper(), path) for path, methods in PATHS.items() for method in methods} == {
        (HTTPMethod.GET, "/v1/health"),
        (HTTPMethod.GET, "/v1/health/live"),
        (HTTPMethod.GET, "/v1/cluster"),
        (HTTPMethod.GET, "/v1/nodes"),
        (HTTPMethod.GET, "/v1/nodes/{node_id}"),
        (HTTPMethod.POST, "/v1/nodes/{node_id}/drain"),
        (HTTPMethod.POST, "/v1/nodes/{node_id}/undrain"),
        (HTTPMethod.GET, "/v1/topics"),
        (HTTPMethod.GET, "/v1/topics/{name}"),
        (HTTPMethod.GET, "/v1/topics/{name}/partitions/{number}"),
        (HTTPMethod.GET, "/v1/topics/{name}/partitions/{number}/history"),
        (HTTPMethod.GET, "/v1/topics/{name}/partitions/{number}/segments"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/move"),
        (HTTPMethod.GET, "/v1/topics/{name}/partitions/{number}/half"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/half/commit"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/half/rollback"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/compaction"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/compaction/{reservation}/swap"),
        (HTTPMethod.DELETE, "/v1/topics/{name}/partitions/{number}/compaction/{reservation}"),
        (HTTPMethod.GET, "/v1/topics/{name}/timers"),
        (HTTPMethod.GET, "/v1/topics/{name}/partitions/{number}/timers"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/timers/cancel"),
        (HTTPMethod.GET, "/v1/history"),
        (HTTPMethod.GET, "/v1/groups"),
        (HTTPMethod.GET, "/v1/groups/{group}/explain"),
        (HTTPMethod.GET, "/v1/groups/{group}/lanes"),
        (HTTPMethod.POST, "/v1/groups/{group}/lanes/explain"),
        (HTTPMethod.GET, "/v1/rights"),
        (HTTPMethod.GET, "/v1/nodes/{node_id}/partitions"),
        (HTTPMethod.GET, "/v1/logs"),
        (HTTPMethod.GET, "/v1/transactions"),
        (HTTPMethod.POST, "/v1/transactions/{transactional_id}/abort"),
        (HTTPMethod.GET, "/v1/topics/{name}/transactions"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions/{number}/transactions/abort"),
        (HTTPMethod.GET, "/v1/transactions/{transactional_id}"),
        (HTTPMethod.POST, "/v1/transactions/{transactional_id}/commit"),
        (HTTPMethod.POST, "/v1/transactions/{transactional_id}/rollback"),
        (HTTPMethod.GET, "/v1/tasks"),
        (HTTPMethod.GET, "/v1/tasks/{task_id}"),
        (HTTPMethod.GET, "/v1/tasks/{task_id}/events"),
        (HTTPMethod.POST, "/v1/rebalance"),
        (HTTPMethod.POST, "/v1/scale"),
        (HTTPMethod.GET, "/v1/redrives"),
        (HTTPMethod.POST, "/v1/redrives"),
        (HTTPMethod.GET, "/v1/redrives/{task_id}"),
        (HTTPMethod.GET, "/v1/redrives/{task_id}/events"),
        (HTTPMethod.DELETE, "/v1/redrives/{task_id}"),
        (HTTPMethod.POST, "/v1/views"),
        (HTTPMethod.POST, "/v1/views/explain"),
        (HTTPMethod.GET, "/v1/tables"),
        (HTTPMethod.POST, "/v1/tables"),
        (HTTPMethod.GET, "/v1/tables/{name}"),
        (HTTPMethod.PUT, "/v1/tables/{name}"),
        (HTTPMethod.DELETE, "/v1/tables/{name}"),
        (HTTPMethod.GET, "/v1/tables/{name}/status"),
        (HTTPMethod.PUT, "/v1/tables/{name}/status"),
        (HTTPMethod.GET, "/v1/channels"),
        (HTTPMethod.GET, "/v1/channels/changes"),
        (HTTPMethod.GET, "/v1/channels/agents"),
        (HTTPMethod.GET, "/v1/channels/{name}"),
        (HTTPMethod.PUT, "/v1/channels/{name}"),
        (HTTPMethod.DELETE, "/v1/channels/{name}"),
        (HTTPMethod.POST, "/v1/topics"),
        (HTTPMethod.DELETE, "/v1/topics/{name}"),
        (HTTPMethod.POST, "/v1/topics/{name}/partitions"),
        (HTTPMethod.GET, "/v1/topics/{name}/configs"),
        (HTTPMethod.PATCH, "/v1/topics/{name}/configs"),
        (HTTPMethod.GET, "/v1/topics/{name}/offsets"),
        (HTTPMethod.GET, "/v1/topics/{name}/records"),
        (HTTPMethod.POST, "/v1/topics/{name}/records"),
        (HTTPMethod.GET, "/v1/topics/{name}/partitions/{number}/records/{offset}/value"),
        (HTTPMethod.GET, "/v1/nodes/{node_id}/configs"),
        (HTTPMethod.POST, "/v1/groups/{group}/offsets"),
        (HTTPMethod.DELETE, "/v1/groups/{group}"),
        (HTTPMethod.GET, "/v1/acls"),
        (HTTPMethod.GET, "/v1/users"),
        (HTTPMethod.GET, "/v1/quotas"),
        (HTTPMethod.POST, "/v1/indexes/{name}/query"),
    }
    assert len(OPERATIONS) == 78


def test_every_error_is_described_as_a_problem() -> None:
    problem = {"$ref": "#/components/schemas/Problem"}
    for path, methods in PATHS.items():
        for method, described in methods.items():
            responses = described["responses"]
            if described.get("parameters") or described.get("requestBody"):
                assert "422" in responses, f"{method} {path}"
            if method == "post":
                has_no_task = "/compaction" in path or "/half/" in path or "/transactions/" in path
                begun = {"201"} if path == "/v1/tables" else set() if has_no_task else {"202", "429"}
                done = set() if path == "/v1/redrives" else {"200"}  # counting takes a while too
                expected = {"307", "409", "422", "503", *done, *begun}
                if path.endswith(("/timers/cancel", "/abort")):  # any node can do it, at once
                    expected = {"200", "409", "422", "503", "504"}
                if path == "/v1/views":
                    expected = {"200", "201", "409", "422", "503", "504"}
                if path in MADE_AT_ONCE:
                    expected = {MADE_AT_ONCE[path], "409", "422", "503", "504"}
                if path in {"/v1/views/explain", "/v1/groups/{group}/lanes/explain"}:  # changes nothing
                    expected = {"200", "404", "422"}
                if path == "/v1/indexes/{name}/query":  # forwarded, and changes nothing
                    expected = {"200", "404", "409", "422", "502", "503", "504"}
                assert expected <= set(responses)
            for status, response in responses.items():
                if int(status) >= 400 and path != "/v1/health":
                    assert response["content"] == {"application/problem+json": {"schema": problem}}, f"{method} {path}"
                    assert response["description"].endswith(".")


async def test_the_document_is_served() -> None:
    async with RestCluster() as cluster:
        assert (await cluster.client.get("/openapi.json")).json() == DOCUMENT
