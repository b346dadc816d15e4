"""The web console in a real browser over answers that are made up: states of a node that are hard to bring about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.support.browser import WatchedPage
from tests.support.made_up_node import BASE, Answer, MadeUpNode, topic

pytestmark = [
    pytest.mark.bmq_only,
    pytest.mark.campaign("browser"),
    pytest.mark.timeout(300),
]

BLOCKED: Final = {
    "code": "partitions_blocked",
    "severity": "error",
    "what": "3 partitions are blocked.",
    "what_to_do": "Free space.",
}
STALLED: Final = {
    "code": "loop_stalled",
    "severity": "warning",
    "what": "It stalled.",
    "what_to_do": "Look for swapping.",
}
STARTS: Final = {"code": "waits_for_store", "severity": "not_ready", "what": "It waits.", "what_to_do": "Check it."}


@pytest.fixture
def node() -> MadeUpNode:
    return MadeUpNode()


@pytest.fixture
def watched(browser: Browser, node: MadeUpNode) -> Iterator[WatchedPage]:
    """Time stands still in it, except where a test lets it run."""
    context = browser.new_context(reduced_motion="reduce")
    page = WatchedPage(context, BASE)
    page.page.clock.install()
    page.page.route("**/*", node.serve)
    yield page
    context.close()
    page.check()


def after(page: Page, seconds: float) -> None:
    """Let the page's clock run, in steps so that answers come in between."""
    for _ in range(round(seconds * 2)):
        page.clock.run_for(500)
        page.evaluate(
            "new Promise((resolve) => { const one = new MessageChannel(); one.port1.onmessage = resolve; one.port2.postMessage(0); })"
        )


def test_the_overview_tells_every_reason_and_what_to_do(watched: WatchedPage, node: MadeUpNode) -> None:
    node.health = (200, {"ready": True, "problems": [], "why": [BLOCKED, STALLED]})
    page = watched.go()
    expect(page.locator("main .note").filter(has_text="3 partitions are blocked. Free space.")).to_contain_text("Error")
    expect(page.locator("main .note").filter(has_text="It stalled. Look for swapping.")).to_contain_text("Warning")
    expect(page.get_by_text("Nothing is wrong")).to_have_count(0)
    expect(page.locator("#status")).to_have_text("! 1 problem")


def test_the_overview_tells_why_a_node_is_not_ready_though_it_answers_nothing_else(
    watched: WatchedPage, node: MadeUpNode
) -> None:
    node.health = (503, {"ready": False, "why": [STARTS]})
    node.answers["/v1/cluster"] = (503, {"detail": "not yet"})
    page = watched.go()
    expect(page.locator("main .note").filter(has_text="It waits. Check it.")).to_contain_text("Not ready")
    expect(page.get_by_text("This node does not serve now.")).to_have_count(0)
    expect(page.locator("#status")).to_have_text("! not ready")
    node.health = (503, {"ready": False})
    page.reload()
    expect(page.get_by_text("This node does not serve now.")).to_be_visible()


def test_warnings_alone_are_no_problem_in_the_header(watched: WatchedPage, node: MadeUpNode) -> None:
    node.health = (200, {"ready": True, "why": [STALLED]})
    page = watched.go()
    expect(page.get_by_text("It stalled.")).to_be_visible()
    expect(page.locator("#status")).to_have_text("✓ ready")


@pytest.mark.parametrize(("status", "comes_back"), [(503, True), (404, False)])
def test_a_page_whose_first_answer_was_503_comes_back(
    watched: WatchedPage, node: MadeUpNode, status: int, comes_back: bool
) -> None:
    node.answers["/v1/topics"] = (status, {"detail": "not yet"})
    page = watched.go("#/topics")
    expect(page.get_by_text("not yet")).to_be_visible()
    node.answers["/v1/topics"] = (200, {"topics": [], "next_after": None})
    with page.expect_response("**/v1/health"):
        page.clock.run_for(5_000)
    if comes_back:
        expect(page.get_by_text("not yet")).to_have_count(0)
        expect(page.get_by_text("0 topics")).to_be_visible()
    else:
        with page.expect_response("**/v1/health"):
            page.clock.run_for(5_000)
        assert node.count("GET", "/v1/topics") == 1


def test_the_live_tail_pauses_when_answers_come_at_once_and_tells_problems(
    watched: WatchedPage, node: MadeUpNode
) -> None:
    """All partitions are in `problems`, so nothing waits."""
    records = "/v1/topics/t/records"
    problems = {str(number): "KAFKA_STORAGE_ERROR" for number in range(3)}
    node.answers[records] = (
        200,
        {"topic": "t", "records": [], "next": "0:0,1:0,2:0", "is_end": True, "scanned": 0, "problems": problems},
    )
    page = watched.go("#/topics/t/records")
    expect(page.get_by_text("Not read: partition 0: KAFKA_STORAGE_ERROR")).to_be_visible()
    before = node.count("GET", records)
    with page.expect_response(lambda one: "wait_ms=8000" in one.url):
        page.get_by_role("button", name="Live tail").click()
    for _ in range(3):
        after(page, 1)
    assert node.count("GET", records) - before <= 4
    expect(page.get_by_text("Not read: partition 0: KAFKA_STORAGE_ERROR")).to_be_visible()
    page.get_by_role("button", name="Stop the tail").click()


def test_the_tail_keeps_telling_partitions_that_are_not_read_on(watched: WatchedPage, node: MadeUpNode) -> None:
    def answer(request: Request) -> Answer:
        problems = {} if "at=" in request.url else {"0": "KAFKA_STORAGE_ERROR"}
        page = {"topic": "t", "records": [], "next": "1:0,2:0", "is_end": False, "scanned": 0, "problems": problems}
        return 200, page

    node.answers["/v1/topics/t/records"] = answer
    page = watched.go("#/topics/t/records")
    with page.expect_response(lambda one: "wait_ms=8000" in one.url):
        page.get_by_role("button", name="Live tail").click()
    after(page, 1)
    expect(page.get_by_text("Not read: partition 0: KAFKA_STORAGE_ERROR")).to_be_visible()


def test_a_double_click_writes_a_record_once(watched: WatchedPage, node: MadeUpNode) -> None:
    records = "/v1/topics/t/records"
    node.answers[records] = lambda _: None
    page = watched.go("#/topics/t/produce")
    go = page.get_by_role("button", name="Write the record")
    go.dblclick()
    expect(go).to_be_disabled()
    assert node.count("POST", records) == 1
    written = {"written": [{"partition": 1, "offset": 7}]}
    node.held.pop().fulfill(status=201, body=json.dumps(written), content_type="application/json")
    expect(page.get_by_text("Partition 1, offset 7.")).to_be_visible()
    expect(go).to_be_enabled()


def test_a_double_click_creates_a_topic_once(watched: WatchedPage, node: MadeUpNode) -> None:
    node.answers["/v1/topics"] = lambda one: None if one.method == "POST" else (200, {"topics": [], "next_after": None})
    page = watched.go("#/topics")
    page.get_by_role("button", name="Create a topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("made")
    go = dialog.get_by_role("button", name="Create", exact=True)
    go.dblclick()
    expect(go).to_be_disabled()
    assert node.count("POST", "/v1/topics") == 1
    node.held.pop().fulfill(status=409, body=json.dumps({"detail": "It exists."}), content_type="application/json")
    expect(dialog.get_by_text("It exists.")).to_be_visible()
    expect(go).to_be_enabled()


def offsets(partitions: int) -> Answer:
    lines = [{"partition": one, "start_offset": 0, "end_offset": 2, "size_bytes": 9} for one in range(partitions)]
    return 200, {"topic": "t", "partitions": lines}


def test_an_open_topic_asks_for_offsets_rarely(watched: WatchedPage, node: MadeUpNode) -> None:
    node.answers["/v1/topics/t/offsets"] = offsets(3)
    page = watched.go("#/topics/t")
    expect(page.get_by_text("3 partitions, 6 offsets in use")).to_be_visible()
    for _ in range(3):
        with page.expect_response("**/v1/topics/t"):
            page.clock.run_for(5_000)
    assert node.count("GET", "/v1/topics/t/offsets") == 1
    with page.expect_response("**/v1/topics/t/offsets"):
        page.clock.run_for(20_000)


def test_a_large_topic_asks_for_offsets_by_a_click(watched: WatchedPage, node: MadeUpNode) -> None:
    node.answers["/v1/topics/t"] = (200, topic(1_001))
    node.answers["/v1/topics/t/offsets"] = offsets(1_001)
    page = watched.go("#/topics/t")
    expect(page.get_by_text("1,001 partitions, id id")).to_be_visible()
    assert node.count("GET", "/v1/topics/t/offsets") == 0
    page.get_by_role("button", name="Show the offsets").click()
    expect(page.get_by_text("1,001 partitions, 2,002 offsets in use")).to_be_visible()
