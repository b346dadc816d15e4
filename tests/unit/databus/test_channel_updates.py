"""Channels come by a long poll, are kept on disk, and the last ones count while the cluster is away."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from bmq.channels.channel_set import ChannelSet, channel_set_to_json
from bmq.databus.channel_updates import FILE, WAIT_MS, ChannelUpdates, ClusterChannels, KeptChannels
from bmq.rest_client.login import RestLogin
from testing.processes import eventually
from tests.unit.databus.agents import channel, channels

pytestmark = pytest.mark.unit

Answer = httpx.Response | Exception
WAIT_S = 20


class Node:
    """Answers polls as a test tells it; a poll waits for its answer."""

    def __init__(self) -> None:
        self.asked: queue.Queue[dict[str, str]] = queue.Queue()
        self.answers: queue.Queue[Answer] = queue.Queue()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.put(dict(request.url.params))
        answer = self.answers.get(timeout=WAIT_S)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def tell(self, found: ChannelSet, cluster_id: str = "x") -> None:
        self.answers.put(httpx.Response(200, json={"cluster_id": cluster_id, **channel_set_to_json(found)}))


@pytest.fixture
def node() -> Node:
    return Node()


Asking = Callable[..., ChannelUpdates]


@pytest.fixture
def asking(node: Node) -> Iterator[Asking]:
    made: list[ChannelUpdates] = []

    def make(on_change: Callable[[ClusterChannels], None]) -> ChannelUpdates:
        updates = ChannelUpdates(
            ["http://one", "http://two"],
            RestLogin(),
            "agent-1",
            ClusterChannels(),
            on_change,
            transport=httpx.MockTransport(node),
        )
        made.append(updates)
        updates.start()
        return updates

    yield make
    for updates in made:
        updates.stop()
        node.answers.put(httpx.Response(503))
        updates._thread.join(WAIT_S)
        assert not updates._thread.is_alive()


def test_each_change_is_used_and_told_with_the_next_poll(node: Node, asking: Asking) -> None:
    used: list[int] = []
    updates = asking(lambda found: used.append(found.channels.version))
    first = node.asked.get(timeout=WAIT_S)
    assert first == {"after": "0", "wait_ms": "0", "agent": "agent-1", "applied": "0"}
    node.tell(channels(channel(), version=4))
    assert node.asked.get(timeout=WAIT_S) == {
        "after": "4", "wait_ms": str(WAIT_MS), "agent": "agent-1", "applied": "4"
    }  # fmt: skip
    node.tell(channels(channel(), version=4))  # the wait was over without a change
    assert node.asked.get(timeout=WAIT_S)["applied"] == "4"
    node.tell(channels(version=3))  # of a node that is behind another one
    assert node.asked.get(timeout=WAIT_S)["applied"] == "4"
    node.tell(channels(version=2), "another cluster")
    assert node.asked.get(timeout=WAIT_S)["applied"] == "2"
    assert used == [4, 2]
    assert updates.trouble == ""


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (httpx.ConnectError("refused"), "refused"),
        (httpx.Response(503, json={"detail": "this node stops"}), "status 503: this node stops"),
        (httpx.Response(200, content=b"<html>"), "the answer is no set of channels"),
        (httpx.Response(200, json=[]), "the answer is no set of channels"),
        (httpx.Response(200, json={"version": "x", "channels": []}), "the answer is no set of channels"),
    ],
)
def test_a_failure_is_told_and_the_next_node_is_asked(node: Node, asking: Asking, answer: Answer, trouble: str) -> None:
    used: list[int] = []
    updates = asking(lambda found: used.append(found.channels.version))
    node.asked.get(timeout=WAIT_S)
    node.answers.put(answer)
    node.asked.get(timeout=WAIT_S)
    assert updates.trouble.startswith(trouble)
    node.tell(channels(version=3))
    node.asked.get(timeout=WAIT_S)
    eventually(lambda: updates.trouble == "", WAIT_S, "the trouble is over", 0.005)
    assert used == [3]


def test_channels_are_kept_for_a_start_without_the_cluster(tmp_path: Path) -> None:
    kept = KeptChannels(tmp_path)
    assert kept.load() == ClusterChannels()
    known = ClusterChannels("x", channels(channel(topic="x"), version=9))
    kept.save(known)
    assert KeptChannels(tmp_path).load() == known
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"version": -1, "channels": []})])
def test_a_damaged_file_of_channels_is_no_channels(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    assert KeptChannels(tmp_path).load() == ClusterChannels()
