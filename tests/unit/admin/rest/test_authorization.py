"""ACLs decide about the REST API as about Kafka's APIs; a path without a right fails here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bmq.admin.rest.application import rest_application
from bmq.admin.rest.authorization import FREE, RIGHTS, Authorization, sees_problems
from bmq.admin.rest.sources import RestSources
from bmq.metadata.image import ViewImage
from bmq.proxy.access import Access
from bmq.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from tests.fakes.cluster_controller import FakeController, image_of, topic_image
from tests.unit.admin.rest.cluster import NODES
from tests.unit.admin.rest.shared_application import application_over

pytestmark = pytest.mark.unit

ALICE = "User:alice"
CONSOLE = {(method, path) for method in ("GET", "HEAD") for path in ("/", "/console/{name}")}
NOT_DESCRIBED = CONSOLE | {("GET", path) for path in ("/docs", "/docs/{name}", "/openapi.json", "/metrics")}
NAMES = {
    "{name}": "orders",
    "{group}": "g",
    "{transactional_id}": "shop/1",
    "{number}": "0",
    "{node_id}": "1",
    "{task_id}": "0123456789abcdef",
    "{reservation}": "r1",
    "{offset}": "0",
}


@dataclass
class GuardedPages:
    """The pages behind an authorizer. Nobody but a super user of the test's choice may do anything without an ACL."""

    super_users: frozenset[str] = frozenset()
    acls: dict[UUID, Acl] = field(default_factory=dict)
    is_ready: bool = True
    allows_without_acl: bool = False
    has_controller: bool = False

    def __post_init__(self) -> None:
        orders = topic_image("orders", 1, [1])
        view = replace(topic_image("paid", 3, [1]), view=ViewImage("orders", orders.topic_id, "tag = 'paid'"))
        image = image_of(NODES, [orders, topic_image("hidden", 2, [1]), view])
        decider = Decider(self.super_users, allows_without_acl=self.allows_without_acl)
        sources = RestSources(
            lambda: self.is_ready,
            lambda: image,
            dict,
            CollectorRegistry(),
            table_controller=lambda: FakeController(image) if self.has_controller else None,
            access=Access(decider, lambda: self.acls),
            principal_of=_principal_of,
        )
        self.sources = sources
        # An application remembers that its node was ready once.
        self.application = application_over(sources) if self.is_ready else rest_application(sources)

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.application, raise_app_exceptions=False, client=("10.0.0.7", 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            return await client.request(method, path, json=body)

    def allow(self, operation: Operation, topic: str | None = None) -> None:
        kind, name = (ResourceType.CLUSTER, CLUSTER_NAME) if topic is None else (ResourceType.TOPIC, topic)
        acl = Acl(kind, name, PatternType.LITERAL, ALICE, "*", operation, Permission.ALLOW)
        self.acls = {**self.acls, UUID(int=len(self.acls) + 1): acl}


def _principal_of(scope: Mapping[str, Any]) -> str:
    return ALICE


def test_every_path_has_a_right() -> None:
    paths = rest_application(GuardedPages().sources).openapi()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert served | NOT_DESCRIBED == RIGHTS.keys()


async def test_a_path_that_nobody_knows_asks_for_the_highest_right() -> None:
    pages = GuardedPages()
    for path in ("/v2/nodes", "/v1/cluster%0A", "/v1/cluster/"):
        assert (await pages.ask("GET", path)).status_code == 403
    assert (await pages.ask("HEAD", "/metrics")).status_code == 403
    pages.allow(Operation.ALTER)
    assert (await pages.ask("GET", "/v2/nodes")).status_code == 404


@pytest.fixture(scope="module")
def closed_pages() -> GuardedPages:
    """Without any ACL, made once, since that takes a tenth of a second."""
    return GuardedPages()


@pytest.mark.parametrize(("method", "path"), [one for one, right in RIGHTS.items() if right is not FREE])
async def test_without_a_right_nothing_is_answered(closed_pages: GuardedPages, method: str, path: str) -> None:
    for word, value in NAMES.items():
        path = path.replace(word, value)
    response = await closed_pages.ask(method, path)
    assert response.status_code == 403, response.text
    assert response.json()["detail"].startswith("User:alice has no right to ")


async def test_a_topic_that_may_not_be_seen_is_as_one_that_does_not_exist() -> None:
    pages = GuardedPages()
    pages.allow(Operation.DESCRIBE, "orders")
    assert (await pages.ask("GET", "/v1/topics/orders")).status_code == 200
    hidden, absent = [await pages.ask("GET", f"/v1/topics/{name}") for name in ("hidden", "absent")]
    assert hidden.status_code == absent.status_code == 403
    assert hidden.text.replace("hidden", "absent") == absent.text
    assert [one["name"] for one in (await pages.ask("GET", "/v1/topics")).json()["topics"]] == ["orders"]


async def test_a_view_is_explained_to_those_who_may_describe_it() -> None:
    pages = GuardedPages()
    pages.allow(Operation.DESCRIBE)
    hidden, absent = [await pages.ask("POST", "/v1/views/explain", {"view": name}) for name in ("paid", "absent")]
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("paid", "absent") == absent.text
    assert (await pages.ask("POST", "/v1/views/explain", {"filter": "TRUE"})).json()["passes"] is True
    pages.allow(Operation.DESCRIBE, "paid")
    assert (await pages.ask("POST", "/v1/views/explain", {"view": "paid"})).json()["filter"] == "tag = 'paid'"


async def test_a_view_is_made_by_those_who_may_alter_the_cluster() -> None:
    pages, form = GuardedPages(), {"name": "v", "topic": "orders", "filter": "TRUE"}
    pages.allow(Operation.DESCRIBE)
    assert (await pages.ask("POST", "/v1/views", form)).status_code == 403
    pages.allow(Operation.ALTER)
    assert (await pages.ask("POST", "/v1/views", form)).status_code == 503  # these pages have no controller


async def test_channels_are_for_those_who_may_describe_or_alter_configs() -> None:
    pages, form = GuardedPages(), {"name": "clicks", "topic": "orders"}
    pages.allow(Operation.DESCRIBE)
    for path in ("/v1/channels", "/v1/channels/changes?after=-1&agent=a", "/v1/channels/agents"):
        assert (await pages.ask("GET", path)).status_code == 403
    pages.allow(Operation.DESCRIBE_CONFIGS)
    for path in ("/v1/channels", "/v1/channels/changes?after=-1&agent=a", "/v1/channels/agents"):
        assert (await pages.ask("GET", path)).status_code == 200
    denied = await pages.ask("PUT", "/v1/channels/clicks", form)
    assert denied.json()["detail"] == "User:alice has no right to ALTER_CONFIGS on the cluster"
    pages.allow(Operation.ALTER_CONFIGS)
    for method in ("PUT", "DELETE"):
        assert (await pages.ask(method, "/v1/channels/clicks", form)).status_code == 307  # to the controller


@pytest.mark.parametrize("topic", [None, "new"])
async def test_a_topic_of_a_channel_is_created_by_those_who_may_create_it(topic: str | None) -> None:
    pages = GuardedPages(has_controller=True)
    form, path = {"name": "clicks", "topic": "new"}, "/v1/channels/clicks?create_topic=true"
    pages.allow(Operation.ALTER_CONFIGS)
    denied = await pages.ask("PUT", path, form)
    assert (denied.status_code, denied.json()["detail"]) == (
        403,
        "topic new is missing, and you have no right to CREATE it",
    )
    there = await pages.ask("PUT", path + "&dry_run=true", {"name": "clicks", "topic": "orders"})
    assert there.status_code == 200
    pages.allow(Operation.CREATE, topic)
    assert (await pages.ask("PUT", path, form)).status_code == 503  # these pages create no topics


async def test_a_group_is_explained_to_those_who_may_describe_it() -> None:
    pages = GuardedPages()
    pages.allow(Operation.DESCRIBE)
    denied = await pages.ask("GET", "/v1/groups/g/explain")
    assert (denied.status_code, denied.json()["detail"]) == (403, "User:alice has no right to DESCRIBE on group g")
    acl = Acl(ResourceType.GROUP, "g", PatternType.LITERAL, ALICE, "*", Operation.DESCRIBE, Permission.ALLOW)
    pages.acls = {UUID(int=9): acl}
    assert (await pages.ask("GET", "/v1/groups/g/explain")).status_code == 503  # these pages have no groups
    assert (await pages.ask("GET", "/v1/groups/h/explain")).status_code == 403


async def test_a_transaction_is_ended_by_those_who_may_write_with_its_id() -> None:
    pages, path = GuardedPages(allows_without_acl=False), "/v1/transactions/shop%2F1"
    form = {"producer_id": 1, "producer_epoch": 0, "started_ms": 0}

    def allow(operation: Operation) -> None:
        acl = Acl(ResourceType.TRANSACTIONAL_ID, "shop/", PatternType.PREFIXED, ALICE, "*", operation, Permission.ALLOW)
        pages.acls = {UUID(int=9): acl}

    pages.allow(Operation.ALTER)
    denied = await pages.ask("POST", f"{path}/commit", form)
    why = "User:alice has no right to WRITE on transactional id shop/1"
    assert (denied.status_code, denied.json()["detail"]) == (403, why)
    allow(Operation.DESCRIBE)
    assert (await pages.ask("GET", path)).status_code == 503  # these pages make no Kafka requests
    assert (await pages.ask("POST", f"{path}/rollback", form)).status_code == 403
    allow(Operation.WRITE)
    for outcome in ("commit", "rollback"):
        assert (await pages.ask("POST", f"{path}/{outcome}", form)).status_code == 404
        assert (await pages.ask("POST", f"/v1/transactions/other/{outcome}", form)).status_code == 403


async def test_a_right_over_the_cluster_opens_its_pages() -> None:
    pages = GuardedPages()
    pages.allow(Operation.ALTER)  # implies DESCRIBE
    assert (await pages.ask("GET", "/v1/nodes")).status_code == 200
    assert (await pages.ask("GET", "/metrics")).status_code == 200
    assert (await pages.ask("POST", "/v1/rebalance")).status_code == 409  # there is nothing to rebalance here


async def test_health_is_for_probes_without_a_name() -> None:
    assert (await GuardedPages().ask("GET", "/v1/health")).json() == {"ready": True}
    assert (await GuardedPages(is_ready=False).ask("GET", "/v1/health")).json() == {"ready": False}
    assert (await GuardedPages(is_ready=False).ask("GET", "/v1/health/live")).json() == {"live": True}


async def test_until_the_acls_are_known_nobody_is_let_in() -> None:
    pages = GuardedPages(is_ready=False, allows_without_acl=True)
    for path in ("/v1/topics", "/v1/topics/orders", "/v1/cluster"):
        assert (await pages.ask("GET", path)).status_code == 503
    pages.is_ready = True
    assert (await pages.ask("GET", "/v1/cluster")).status_code == 200
    pages.is_ready = False  # fenced for a moment
    assert (await pages.ask("GET", "/v1/cluster")).status_code == 200


async def test_a_denial_is_audited_and_a_listing_is_not() -> None:
    pages = GuardedPages()
    with capture_logs() as logs:
        await pages.ask("GET", "/v1/topics")
        await pages.ask("GET", "/v1/topics/a%0Ab")
    assert [one["event"] for one in logs] == [
        "Principal = User:alice is Denied operation = DESCRIBE from host = 10.0.0.7 on resource = Topic:LITERAL:a\\nb "
        "for request = GET /v1/topics/{name} with resourceRefCount = 1 based on rule DefaultDeny"
    ]


async def test_the_health_names_partitions_to_those_who_may_describe_the_cluster() -> None:
    pages = GuardedPages()
    assert not sees_problems({"bmq.is_stranger": True})
    assert sees_problems({})
    scope = {"type": "http", "method": "GET", "path": "/v1/health", "client": ("10.0.0.7", 5)}

    async def reached(*_: object) -> None:
        pass

    guard = Authorization(reached, Access(Decider(frozenset()), lambda: pages.acls), _principal_of, lambda: True)
    await guard(scope, reached, reached)  # type: ignore[arg-type]
    assert not sees_problems(scope)
    pages.allow(Operation.DESCRIBE)
    assert sees_problems(scope)


async def test_clients_are_told_their_own_rights() -> None:
    pages = GuardedPages()
    found = (await pages.ask("GET", "/v1/rights")).json()
    assert found == {
        "principal": ALICE,
        "has_authorizer": True,
        "cluster": [],
        "topic": None,
        "group": None,
        "transactional_id": None,
    }
    pages.allow(Operation.ALTER)
    pages.allow(Operation.READ, "orders")
    found = (await pages.ask("GET", "/v1/rights?topic=orders&group=g&transactional_id=t/1")).json()
    assert (found["cluster"], found["topic"]) == (["ALTER", "DESCRIBE"], ["READ", "DESCRIBE"])
    assert (found["group"], found["transactional_id"]) == ([], [])
    hidden, absent = [(await pages.ask("GET", f"/v1/rights?topic={name}")).json() for name in ("hidden", "absent")]
    assert hidden == absent, "it does not tell what exists"
    pages.is_ready = False
    assert (await GuardedPages(is_ready=False).ask("GET", "/v1/rights")).status_code == 503


async def test_rights_are_not_audited() -> None:
    with capture_logs() as logged:
        await GuardedPages().ask("GET", "/v1/rights?topic=orders")
    assert logged == []


async def test_without_every_transactional_id_nothing_is_said_to_hang() -> None:
    pages = GuardedPages()
    pages.allow(Operation.ALTER)
    form = {"producer_id": 1, "producer_epoch": 0, "start_offset": 0}
    denied = await pages.ask("POST", "/v1/topics/orders/partitions/0/transactions/abort", form)
    assert denied.status_code == 403 and "every transactional id" in denied.json()["detail"]
    every = Acl(
        ResourceType.TRANSACTIONAL_ID, "*", PatternType.LITERAL, ALICE, "*", Operation.DESCRIBE, Permission.ALLOW
    )
    pages.acls = {**pages.acls, UUID(int=99): every}
    denied = await pages.ask("POST", "/v1/topics/orders/partitions/0/transactions/abort", form)
    assert denied.status_code == 403 and "DESCRIBE the topic" in denied.json()["detail"]
    pages.allow(Operation.READ, "orders")
    answered = await pages.ask("POST", "/v1/topics/orders/partitions/0/transactions/abort", form)
    assert answered.status_code == 503, "these pages have no way to ask for producers"
    # The coordinator of this id tells the client nothing of its transactions, so a live one would look as if it hung.
    one = every._replace(resource_name="shop", permission=Permission.DENY)
    pages.acls = {**pages.acls, UUID(int=98): one}
    denied = await pages.ask("POST", "/v1/topics/orders/partitions/0/transactions/abort", form)
    assert denied.status_code == 403 and "every transactional id" in denied.json()["detail"]
