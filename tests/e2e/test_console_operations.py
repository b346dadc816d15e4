"""The console's pages of operations in a real browser over made-up answers: transactions, map, partitions, tables, Databus, logs.

Whatever the data has, it is text on each page; orders show a plan first and ask for the name; what is not allowed is not offered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.support.browser import MARKUP, WatchedPage
from tests.support.made_up_node import BASE, CLUSTER, Answer, MadeUpNode

pytestmark = [
    pytest.mark.bmq_only,
    pytest.mark.campaign("browser"),
    pytest.mark.timeout(300),
]

T0: Final = "2026-01-01T00:00:00Z"
EVERYTHING: Final = ["CREATE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
READER: Final = {
    "principal": "User:reader",
    "has_authorizer": True,
    "cluster": ["DESCRIBE"],
    "topic": ["READ", "DESCRIBE"],
    "group": ["DESCRIBE"],
    "transactional_id": ["DESCRIBE"],
}


def node_line(node_id: int, partitions: int, **more: Any) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "host": "h",
        "port": 9092,
        "rack": None,
        "roles": ["broker", "controller"],
        "internal": None,
        "rest": None,
        "epoch": 1,
        "is_draining": False,
        "is_controller": node_id == 1,
        "partitions_led": partitions,
        "load": None,
        **more,
    }


def cluster_of(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**CLUSTER, "answered_by": 1, "controller_rest": None, "nodes": list(nodes), **more}


def transaction(transactional_id: str, **more: Any) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "state": "Ongoing",
        "is_open": True,
        "is_hanging": False,
        "producer_id": 7,
        "producer_epoch": 3,
        "started_ms": 1_700_000_000_000,
        "age_ms": 65_000,
        "timeout_ms": 60_000,
        "topics": [{"topic": "orders", "partitions": [0, 2]}],
        **more,
    }


def line_of(one: dict[str, Any]) -> dict[str, Any]:
    count = sum(len(topic["partitions"]) for topic in one["topics"])
    return {**{key: value for key, value in one.items() if key != "topics"}, "partition_count": count, "problem": None}


def event(number: int, name: str, level: str = "info", **fields: Any) -> dict[str, Any]:
    return {"number": number, "at": T0, "level": level, "event": name, "fields": fields}


def plan(summary: str, *moves: tuple[str, int, int, int]) -> Answer:
    lines = [
        {"topic": topic, "partition": number, "from_node": one, "to_node": other, "reason": "it is asked for"}
        for topic, number, one, other in moves
    ]
    return 200, {"summary": summary, "move_count": len(lines), "moves": lines, "start": [], "stop": []}


TASK: Final = {
    "id": "0123456789abcdef",
    "kind": "move",
    "subject": "orders-0",
    "state": "running",
    "progress": 0.5,
    "steps": [{"number": 0, "at": T0, "text": "begun"}],
    "started_at": T0,
    "ended_at": None,
    "error": None,
    "version": 1,
}


def set_state(node: MadeUpNode, text: str) -> None:
    """Answers of all pages, with this text in every place where a name, an id or a sentence may be."""
    nodes = [node_line(1, 5, host=text, rack=text, roles=["broker", text]), node_line(2, 1, is_draining=True)]
    change = {"at": T0, "topic": text, "partition": 0, "leader": 1, "leader_epoch": 2, "reason": text}
    segment = {
        "path": f"/d/{text}",
        "leader_epoch": 2,
        "roll": 0,
        "base_offset": 0,
        "end_offset": 9,
        "valid_bytes": 100,
        "file_bytes": 120,
        "is_open": False,
        "nodes": [text, "d2:9866"],
    }
    term = {
        "leader": 1,
        "leader_epoch": 2,
        "since": T0,
        "until": None,
        "lasted_ms": 5,
        "without_owner_ms": 0,
        "reason": text,
    }
    opened = {
        "partition": 0,
        "producer_id": 7,
        "producer_epoch": 3,
        "start_offset": 4,
        "last_ms": 1_700_000_000_000,
        "transactional_id": None,
        "is_hanging": True,
    }
    status = {
        "name": "clicks",
        "topic": text,
        "topic_exists": False,
        "version": 1,
        "reported_at": T0,
        "state": text,
        "silent_s": None,
        "error": text,
        "committed_at": T0,
        "rows": 1,
        "dead_letter_rows": 2,
        "files": 3,
        "bytes": 4,
        "lag": 5,
        "partitions": [{"partition": 0, "offset": 1, "end_offset": 6, "lag": 5}],
    }
    table = {
        "name": "clicks",
        "topic": text,
        "format": "json",
        "fields": 2,
        "version": 1,
        "definition_error": None,
        "is_index": True,
    }
    agent = {"id": text, "address": text, "applied_version": 1, "seen_ms_ago": 5, "is_waiting": False}
    node.answers |= {
        "/v1/cluster": (200, cluster_of(*nodes, partitions_without_leader=1)),
        "/v1/nodes": (200, nodes),
        "/v1/history": (200, {"changes": [change]}),
        "/v1/tasks": (200, {"tasks": [{**TASK, "subject": text, "steps": [{"number": 0, "at": T0, "text": text}]}]}),
        "/v1/nodes/1/partitions": (
            200,
            {
                "node_id": 1,
                "count": 1,
                "stored_bytes": 77,
                "next_skip": None,
                "partitions": [{"topic": text, "partition": 0, "leader_epoch": 2, "size_bytes": 77}],
            },
        ),
        "/v1/transactions": (
            200,
            {"transactions": [{**line_of(transaction(text)), "is_hanging": True}], "next_after": None},
        ),
        f"/v1/transactions/{text}": (
            200,
            transaction(text, is_hanging=True, topics=[{"topic": text, "partitions": [0]}]),
        ),
        "/v1/topics/t/transactions": (
            200,
            {
                "topic": "t",
                "transactions": [opened, {**opened, "transactional_id": text, "is_hanging": False}],
                "problems": {"2": text},
                "next_skip": None,
            },
        ),
        "/v1/topics/t/partitions/0": (
            200,
            {"owner": 1, "leader_epoch": 2, "replicas": [1, 2], "isr": [1], "high_watermark": 9},
        ),
        "/v1/topics/t/partitions/0/history": (200, {"without_owner_ms": 5, "earlier_epochs": 1, "terms": [term]}),
        "/v1/topics/t/partitions/0/segments": (
            200,
            {"count": 1, "log_start_offset": 0, "segments": [segment], "next_skip": None},
        ),
        "/v1/tables": (200, {"tables": [table, {**table, "definition_error": text}], "next_after": None}),
        "/v1/tables/clicks": (200, {"version": 1, "altered_at": T0, "definition": {"name": "clicks", "doc": text}}),
        "/v1/tables/clicks/status": (200, status),
        "/v1/channels": (
            200,
            {
                "version": 1,
                "channels": [{"name": "clicks", "topic": text, "note": text, "rules": [text]}],
                "unreadable": {text: text},
                "states": {"clicks": {"version": 1, "altered_at": T0, "topic_problem": text}},
            },
        ),
        "/v1/channels/agents": (200, {"node_id": 1, "version": 1, "count": 1, "agents": [agent], "next_after": None}),
        "/v1/logs": (
            200,
            {
                "node_id": 1,
                "events": [event(1, text, "warning", topic=text, **{text: [text]})],
                "next_after": 1,
                "is_complete": True,
                "is_end": True,
            },
        ),
    }


@pytest.fixture
def node() -> MadeUpNode:
    found = MadeUpNode()
    set_state(found, "quiet")
    return found


@pytest.fixture
def watched(browser: Browser, node: MadeUpNode) -> Iterator[WatchedPage]:
    context = browser.new_context(reduced_motion="reduce")
    page = WatchedPage(context, BASE)
    page.page.route("**/*", node.serve)
    yield page
    context.close()
    page.check()


# ---------------------------------------------------------------- every page


PAGES: Final = {
    "#/transactions": "hangs",
    "#/transactions/TEXT": "has no end though its time-out has passed",
    "#/topics/t/transactions": "no coordinator",
    "#/topics/t/partitions/0": "d2:9866",
    "#/map": "has no owner",
    "#/nodes": "drained",
    "#/nodes/1": "77 B",
    "#/tables": "5 records",
    "#/tables/clicks": "Its topic is gone.",
    "#/databus": "version 1",
    "#/logs": "1 event",
}
"""Each with a text that is there once its data is."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("where", PAGES)
def test_markup_is_text_on_every_page_and_each_is_accessible(
    browser: Browser, node: MadeUpNode, axe: str, where: str, theme: Any
) -> None:
    """On a screen in light, and on a phone in dark."""
    set_state(node, MARKUP)
    width = 1_200 if theme == "light" else 390
    context = browser.new_context(
        viewport={"width": width, "height": 780}, color_scheme=theme, reduced_motion="reduce", has_touch=theme == "dark"
    )
    watched = WatchedPage(context, BASE)
    watched.page.route("**/*", node.serve)
    escaped = watched.page.evaluate("encodeURIComponent", MARKUP) if "TEXT" in where else ""
    page = watched.go(where.replace("TEXT", escaped))
    expect(page.locator("main").get_by_text(PAGES[where]).first).to_be_visible()
    for details in page.locator("main details").all():
        details.locator("summary").click()
    assert watched.findings(axe) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls to the side"
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script").count() == 0
    assert MARKUP in (page.locator("main").text_content() or ""), "it is shown"
    context.close()
    watched.check()


def test_the_new_pages_are_in_the_menu_and_reached_by_keyboard(watched: WatchedPage) -> None:
    page = watched.go()
    for title in ("Transactions", "Map", "Tables", "Databus", "Logs"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=title, exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
        assert page.evaluate("document.activeElement.id") == "main", "what is typed next goes to the page"


# ---------------------------------------------------------------- rights


@pytest.mark.parametrize(
    ("where", "shown", "offered"),
    [
        ("#/transactions/quiet", "Age", "Abort the transaction"),
        ("#/topics/t/transactions", "hangs", "Abort in partition 0"),
        ("#/topics/t/partitions/0", "Owners over time", "Move"),
        ("#/map", "Node 1", "Rebalance"),
        ("#/map", "Node 1", "Scale"),
        ("#/nodes", "drained", "Drain"),
        ("#/nodes", "drained", "Undrain"),
        ("#/nodes/1", "77 B", "Move quiet-0"),
        ("#/nodes/1", "77 B", "Drain"),
        ("#/topics", "0 topics", "Create a topic"),
        ("#/topics/t", "3 partitions", "Delete the topic"),
        ("#/topics/t", "3 partitions", "Add partitions"),
    ],
)
@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_action_is_offered_to_those_who_have_the_right(
    watched: WatchedPage, node: MadeUpNode, where: str, shown: str, offered: str, is_allowed: bool
) -> None:
    allowed = {
        **READER,
        "cluster": EVERYTHING,
        "topic": ["READ", "WRITE", "ALTER", "DELETE", "DESCRIBE"],
        "transactional_id": ["DESCRIBE", "WRITE"],
    }
    node.answers["/v1/rights"] = (200, allowed if is_allowed else READER)
    page = watched.go(where)
    expect(page.locator("main").get_by_text(shown).first).to_be_visible()
    expect(page.get_by_role("button", name=offered, exact=True)).to_have_count(1 if is_allowed else 0)


def test_where_rights_are_not_told_the_api_decides(watched: WatchedPage, node: MadeUpNode) -> None:
    node.answers["/v1/rights"] = (503, {"detail": "the ACLs are not known here yet"})
    node.answers["/v1/transactions/quiet/abort"] = (403, {"detail": "User:a has no right to WRITE"})
    page = watched.go("#/transactions/quiet")
    page.get_by_role("button", name="Abort the transaction").click()
    expect(page.get_by_role("dialog").get_by_text("Not allowed: User:a has no right to WRITE")).to_be_visible()


# ---------------------------------------------------------------- orders


class Asked:
    """What an order's path was asked: (is it a dry run, body) each, and how it answers."""

    def __init__(self, plan: Answer, done: Answer) -> None:
        self.all: list[tuple[bool, Any]] = []
        self._plan = plan
        self._done = done

    def __call__(self, request: Request) -> Answer:
        is_dry_run = parse_qs(urlsplit(request.url).query).get("dry_run") == ["true"]
        self.all.append((is_dry_run, json.loads(request.post_data) if request.post_data else None))
        return self._plan if is_dry_run else self._done


def confirm(page: Page, action: str, name: str) -> None:
    """The action is not to be had before the very name is typed."""
    dialog = page.get_by_role("dialog")
    go = dialog.get_by_role("button", name=action, exact=True)
    expect(go).to_be_disabled()
    dialog.get_by_label(f"Type {name} to confirm").fill(f"{name}x")
    expect(go).to_be_disabled()
    dialog.get_by_label(f"Type {name} to confirm").fill(name)
    expect(go).to_be_enabled()
    dialog.get_by_label(f"Type {name} to confirm").press("Enter")


@pytest.mark.parametrize(
    ("where", "button", "path", "action", "name"),
    [
        ("#/nodes", "Drain", "/v1/nodes/1/drain", "Drain", "node 1"),
        ("#/nodes", "Undrain", "/v1/nodes/2/undrain", "Undrain", "node 2"),
        ("#/map", "Rebalance", "/v1/rebalance", "Rebalance", "rebalance"),
    ],
)
def test_an_order_shows_its_plan_and_asks_for_the_name(
    watched: WatchedPage, node: MadeUpNode, where: str, button: str, path: str, action: str, name: str
) -> None:
    asked = Asked(plan("This would be done.", ("orders", 0, 1, 2)), (202, TASK))
    node.answers[path] = asked
    page = watched.go(where)
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("This would be done.")).to_be_visible()
    expect(dialog.get_by_role("row").filter(has_text="orders-0")).to_be_visible()
    assert asked.all == [(True, None)]
    confirm(page, action, name)
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    assert asked.all == [(True, None), (False, None)]


@pytest.mark.parametrize(
    ("where", "button", "path", "name", "body"),
    [
        ("#/nodes/1", "Move quiet-0", "/v1/topics/quiet/partitions/0/move", "quiet-0", {"to": 2}),
        ("#/topics/t/partitions/0", "Move", "/v1/topics/t/partitions/0/move", "t-0", {"to": 2}),
        ("#/map", "Scale", "/v1/scale", "scale", {"brokers": 4}),
    ],
)
def test_an_order_with_a_choice_is_given_by_the_plan_of_that_choice(
    watched: WatchedPage, node: MadeUpNode, where: str, button: str, path: str, name: str, body: dict[str, int]
) -> None:
    asked = Asked(plan("This would be done."), (202, TASK))
    node.answers[path] = asked
    page = watched.go(where)
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    action = button.split()[0]
    confirm(page, action, name)
    expect(dialog.get_by_text("Look at the plan of this order first.")).to_be_visible()
    if "brokers" in body:
        dialog.get_by_role("button", name="Show the plan").click()
        expect(dialog.get_by_text("This would be done.")).to_be_visible()
        dialog.get_by_label("Brokers").fill(str(body["brokers"]))
        dialog.get_by_role("button", name=action, exact=True).click()
        expect(dialog.get_by_text("Look at the plan of this order first.")).to_be_visible()
    dialog.get_by_role("button", name="Show the plan").click()
    expect(dialog.get_by_text("No partition moves.")).to_be_visible()
    assert all(is_dry_run for is_dry_run, _ in asked.all)
    with page.expect_response(lambda one: one.request.method == "POST" and "dry_run" not in one.url):
        dialog.get_by_role("button", name=action, exact=True).click()
    assert asked.all[-1] == (False, body)


# ---------------------------------------------------------------- transactions


def test_a_transaction_is_aborted_by_its_plan_and_its_id(watched: WatchedPage, node: MadeUpNode) -> None:
    shop = transaction("shop/1")
    node.answers["/v1/transactions"] = (200, {"transactions": [line_of(shop)], "next_after": None})
    node.answers["/v1/transactions/shop/1"] = (200, shop)
    done = {
        "transactional_id": "shop/1",
        "summary": "It would be aborted.",
        "state": "Ongoing",
        "topics": shop["topics"],
    }
    asked = Asked((200, done), (200, {**done, "state": "PrepareAbort"}))
    node.answers["/v1/transactions/shop/1/abort"] = asked
    page = watched.go("#/transactions")
    row = page.get_by_role("row").filter(has_text="shop/1")
    expect(row).to_contain_text("1 min 5 s")
    page.get_by_role("link", name="shop/1").click()
    expect(page.get_by_role("link", name="orders-2")).to_be_visible()
    page.get_by_role("button", name="Abort the transaction").click()
    expect(page.get_by_role("dialog").get_by_text("It would be aborted.")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_text("orders-0, orders-2")).to_be_visible()
    confirm(page, "Abort", "shop/1")
    expect(page.get_by_role("dialog")).to_have_count(0)
    named = {"producer_id": 7, "producer_epoch": 3, "started_ms": 1_700_000_000_000}
    assert asked.all == [(True, named), (False, named)]


def test_transactions_are_read_page_by_page_and_by_kind(watched: WatchedPage, node: MadeUpNode) -> None:
    queries: list[dict[str, list[str]]] = []

    def answer(request: Request) -> Answer:
        query = parse_qs(urlsplit(request.url).query)
        queries.append(query)
        if "after" in query:
            return 200, {"transactions": [line_of(transaction("b"))], "next_after": None}
        return 200, {"transactions": [{**line_of(transaction("a")), "is_hanging": True}], "next_after": "a"}

    node.answers["/v1/transactions"] = answer
    page = watched.go("#/transactions")
    expect(page.get_by_text("1 transactional id, 1 hanging, there are more")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Ongoing, hangs")).to_have_count(1)
    page.get_by_role("button", name="More").click()
    expect(page.get_by_text("2 transactional ids, 1 hanging")).to_be_visible()
    with page.expect_response(lambda one: "show=hanging" in one.url):
        page.get_by_label("Show").select_option("hanging")
    with page.expect_response(lambda one: "prefix=sh" in one.url):
        page.get_by_label("Ids that begin with").fill("sh")
    assert queries[0]["show"] == ["open"]


def test_a_transaction_that_nobody_knows_is_aborted_in_its_partition(watched: WatchedPage, node: MadeUpNode) -> None:
    asked = Asked((200, {"summary": "t-0 gets a marker."}), (200, {"summary": "t-0 has a marker."}))
    node.answers["/v1/topics/t/partitions/0/transactions/abort"] = asked
    page = watched.go("#/transactions")
    page.get_by_label("Topic").fill("t")
    page.get_by_role("button", name="Look for open transactions").click()
    expect(page.get_by_text("2 open transactions, 1 hanging")).to_be_visible()
    expect(page.get_by_text("Not looked into: partition 2: quiet")).to_be_visible()
    page.get_by_role("button", name="Abort in partition 0").click()
    expect(page.get_by_role("dialog").get_by_text("t-0 gets a marker.")).to_be_visible()
    before = node.count("GET", "/v1/topics/t/transactions")
    with page.expect_response("**/v1/topics/t/transactions?**"):
        confirm(page, "Abort", "t-0")
    named = {"producer_id": 7, "producer_epoch": 3, "start_offset": 4}
    assert asked.all == [(True, named), (False, named)]
    assert node.count("GET", "/v1/topics/t/transactions") == before + 1


# ---------------------------------------------------------------- logs, the map, a partition's files


def test_logs_are_followed_filtered_and_tell_gaps(watched: WatchedPage, node: MadeUpNode) -> None:
    queries: list[dict[str, list[str]]] = []

    def answer(request: Request) -> Answer:
        query = parse_qs(urlsplit(request.url).query)
        queries.append(query)
        page: dict[str, Any] = {"node_id": 1, "next_after": 9, "is_complete": True, "is_end": True}
        if query["after"] == ["-1"]:
            return 200, {**page, "next_after": 2, "events": [event(1, "first"), event(2, "second", "error", a=1)]}
        if query["after"] == ["2"]:
            return 200, {**page, "events": [event(9, "third")], "is_complete": False}
        return 200, {**page, "events": []}

    node.answers["/v1/logs"] = answer
    watched.page.clock.install()
    page = watched.go("#/logs")
    names = page.locator("main details strong")
    expect(names).to_have_text(["second", "first"])
    with page.expect_response("**/v1/logs?**"):
        page.clock.run_for(2_500)
    expect(names).to_have_text(["third", "second", "first"])
    expect(page.get_by_text("Events are missing here")).to_be_visible()
    page.get_by_role("button", name="Stop following").click()
    count = len(queries)
    page.clock.run_for(10_000)
    assert len(queries) == count
    with page.expect_response(lambda one: "level=error" in one.url and "event=sec" not in one.url):
        page.get_by_label("Level and worse").select_option("error")
    with page.expect_response(lambda one: "event=sec" in one.url):
        page.get_by_label("Event", exact=True).fill("sec")
    assert all(one["after"] == ["-1"] for one in queries[count:]), "a new filter begins anew"


def test_the_map_shows_moves_as_they_happen(watched: WatchedPage, node: MadeUpNode) -> None:
    watched.page.clock.install()
    page = watched.go("#/map")
    expect(page.get_by_role("img", name="5 partitions, 167 %")).to_be_visible()
    change = {"at": "2999-01-01T00:00:00Z", "topic": "t", "partition": 1, "leader": 2, "leader_epoch": 3, "reason": "x"}
    node.answers["/v1/history"] = (200, {"changes": [change]})
    with page.expect_response("**/v1/history?**"):
        page.clock.run_for(2_500)
    expect(page.get_by_role("listitem").filter(has_text="t-1 is owned by node 2")).to_contain_text("new")
    expect(page.get_by_text("move quiet")).to_be_visible()


def test_another_nodes_console_is_named_where_orders_are_given(watched: WatchedPage, node: MadeUpNode) -> None:
    there = cluster_of(node_line(1, 3), answered_by=2, controller_rest="http://10.0.0.1:8080")
    node.answers["/v1/cluster"] = (200, there)
    node.answers["/v1/tasks"] = (307, {})
    page = watched.go("#/map")
    link = page.get_by_role("link", name="Open its console")
    expect(link).to_have_attribute("href", "http://10.0.0.1:8080/#/map")
    there["controller_rest"] = "javascript:alert(1)"
    watched.go("#/nodes")
    expect(page.get_by_text("Node 1 is the active controller")).to_be_visible()
    expect(link).to_have_count(0)


def test_a_partitions_files_come_in_pages(watched: WatchedPage, node: MadeUpNode) -> None:
    path = "/v1/topics/t/partitions/0/segments"
    status, first = node.answers[path]  # type: ignore[misc]
    segment = first["segments"][0]

    def answer(request: Request) -> Answer:
        skip = int(parse_qs(urlsplit(request.url).query)["skip"][0])
        segments = [{**segment, "base_offset": skip}]
        return status, {**first, "count": 2, "segments": segments, "next_skip": 200 if skip == 0 else None}

    node.answers[path] = answer
    page = watched.go("#/topics/t/partitions/0")
    files = page.get_by_role("region", name="Segments").get_by_role("row")
    expect(files).to_have_count(2)
    expect(files.nth(1)).to_contain_text("20 B more in the file")
    page.get_by_role("button", name="More segments").click()
    expect(files).to_have_count(3)
    expect(page.get_by_role("button", name="More segments")).to_be_hidden()
    node.answers[path] = (504, {"detail": "the store did not answer within 3 s"})
    page.get_by_role("button", name="Read again").click()
    expect(page.get_by_text("the store did not answer within 3 s")).to_be_visible()
    expect(page.get_by_role("heading", name="Owners over time")).to_be_visible()


def formatted(page: Page) -> Callable[[int], str]:
    return lambda ms: page.evaluate("async (ms) => (await import('/console/format.js')).duration(ms)", ms)


def test_spans_are_told_by_their_two_largest_units(watched: WatchedPage) -> None:
    text = formatted(watched.go())
    known = {0: "0 ms", 999: "999 ms", 1_000: "1 s", 65_000: "1 min 5 s", 3_600_000: "1 h", 90_061_000: "1 d 1 h"}
    assert {ms: text(ms) for ms in known} == known
