"""The HTTP door: one record or many, all or none, and a clear status for each thing that is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.databus.doors.http_door import http_door
from bmq.databus.doors.json_lines import BadLine, records_of_lines
from bmq.databus.settings import AgentSettings
from tests.unit.databus.agents import Agent, channel, channels

pytestmark = pytest.mark.unit

LINES = {"Content-Type": "application/x-ndjson"}


class Served:
    """The door's application, and the agent behind it."""

    def __init__(self, directory: Path, **more: Any) -> None:
        self.agent = Agent(directory, channel(max_record_bytes=100), channel("slow", rate_limit_records_per_s=1))
        settings = AgentSettings.model_validate({"agent_id": "a", "frame_bytes_max": 2_000, **more})
        door = http_door(self.agent.intake, settings, CollectorRegistry(), lambda: {"agent_id": "a"})
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(door), base_url="http://agent")

    async def post(self, content: Any, name: str = "c", **more: Any) -> httpx.Response:
        return await self.client.post(f"/v1/channels/{name}", content=content, **more)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path)
    yield made
    await made.client.aclose()


async def test_one_record_with_key_and_headers(served: Served) -> None:
    headers = {"X-Bmq-Header-Trace": "7", "Content-Type": "application/octet-stream"}
    response = await served.post(b"\x00\xff", params={"key": "k"}, headers=headers)
    assert response.status_code == 200
    assert response.json() == {
        "accepted": 1, "sampled_out": 0, "dropped": 0, "first_number": 1_000, "last_number": 1_000
    }  # fmt: skip
    (record,) = served.agent.records()
    assert (record.key, record.value, record.headers) == (b"k", b"\x00\xff", [("trace", b"7")])


async def test_lines_are_records(served: Served) -> None:
    lines = [
        {"value": "text", "key": "k", "headers": [["a", "b"], ["n", None]], "timestamp_ms": 5},
        {"value": {"a": 1}, "topic": "of another place", "offset": 3},
        {"value": {"base64": "AP8="}},
        {"value": None, "key": 7},
    ]
    body = "\n".join(json.dumps(line) for line in lines) + "\n\n"
    response = await served.post(body, headers=LINES)
    assert response.json()["accepted"] == 4
    found = served.agent.records()
    assert [record.value for record in found] == [b"text", b'{"a":1}', b"\x00\xff", None]
    assert (found[0].headers, found[0].timestamp_ms, found[3].key) == ([("a", b"b"), ("n", None)], 5, b"7")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 2: it is no JSON"),
        ("[1]", 'line 2: it is not an object with a "value"'),
        ('{"key": 1}', 'line 2: it is not an object with a "value"'),
        ('{"value": 1, "vlaue": 2}', 'line 2: "vlaue" is not known; headers, key, timestamp_ms, value are'),
        ('{"value": {"base64": "?"}}', "line 2: value is not base64"),
        ('{"value": 1, "timestamp_ms": "now"}', "line 2: timestamp_ms is no number from 0 to 9223372036854775807"),
        ('{"value": 1, "headers": [["a"]]}', "line 2: a header is not"),
        ('{"value": 1, "headers": [["\\udcff", "b"]]}', "line 2: the headers are too many or too long"),
        ("[" * 100_000, "line 2: it is no JSON"),
    ],
)
def test_a_wrong_line_is_named(line: str, sentence: str) -> None:
    with pytest.raises(BadLine) as found:
        records_of_lines(b'{"value": 1}\n' + line.encode())
    assert str(found.value).startswith(sentence)


@pytest.mark.parametrize(
    ("content", "more", "status", "detail"),
    [
        (b"x" * 101, {}, 413, "the record has 101 bytes, the channel c allows 100"),
        (b"x" * 2_001, {}, 413, "the body is too long, 2000 bytes are allowed"),
        (b"x", {"name": "none"}, 404, "there is no channel 'none' in version 1"),
        (b"x", {"headers": {"Content-Type": "text/csv"}}, 415, "the content type is to be"),
        (b"\n", {"headers": LINES}, 400, "the body has no record"),
        (b'{"value": "a"}\n{', {"headers": LINES}, 400, "line 2: it is no JSON"),
        (b'{"value": "a"}\n{"value": 1, "headers": [["\\udcff", ""]]}', {"headers": LINES}, 400, "line 2: the headers"),
        (b'{"value": "a"}\n{"value": "%s"}' % (b"x" * 101), {"headers": LINES}, 413, "record 2: the record has 101"),
    ],
)
async def test_what_is_wrong_has_a_status_and_takes_nothing(
    served: Served, content: bytes, more: dict[str, Any], status: int, detail: str
) -> None:
    response = await served.post(content, **more)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"].startswith(detail)
    assert served.agent.records() == []


async def test_a_body_without_a_length_is_bounded(served: Served) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    response = await served.post(endless())
    assert response.status_code == 413


async def test_a_body_that_does_not_come_is_ended(tmp_path: Path) -> None:
    served = Served(tmp_path, frame_timeout_s=0.05)

    async def half() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    response = await served.post(half())
    assert response.status_code == 408
    assert served.agent.records() == []
    await served.client.aclose()


async def test_back_pressure_is_429_with_a_time(served: Served) -> None:
    assert (await served.post(b"1", name="slow")).status_code == 200
    response = await served.post(b"2", name="slow")
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    assert 0 < response.json()["retry_after_ms"] <= 1_000


async def test_a_token_is_demanded_where_one_is_set(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("right\n")
    token_file.chmod(0o600)
    served = Served(tmp_path / "spool", http_token_file=str(token_file))
    assert (await served.post(b"x")).status_code == 401
    wrong = await served.post(b"x", headers={"Authorization": "Bearer wrong"})
    assert (wrong.status_code, wrong.json()["detail"]) == (401, "the bearer token is wrong")
    assert (await served.client.get("/metrics")).status_code == 401
    assert (await served.client.get("/v1/health")).status_code == 200
    right = {"Authorization": "Bearer right"}
    assert (await served.post(b"x", headers=right)).status_code == 200
    token_file.chmod(0o644)
    response = await served.post(b"x", headers=right)
    assert response.status_code == 401
    assert "right" not in response.text
    await served.client.aclose()


async def test_health_and_status(served: Served) -> None:
    assert (await served.client.get("/v1/health")).json() == {"status": "ok"}
    assert (await served.client.get("/v1/status")).json() == {"agent_id": "a"}
    assert (await served.client.get("/metrics")).status_code == 200
    served.agent.intake.is_stopping = True
    assert (await served.client.get("/v1/health")).status_code == 503
    assert (await served.post(b"x")).status_code == 429


async def test_dropped_records_are_all_counted(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.agent.intake.use(channels(channel(spool_full="drop_newest")))
    served.agent.budget.bytes_max = 100
    response = await served.post(b'{"value": 1}\n{"value": 2}\n{"value": 3}\n', headers=LINES)
    assert (response.status_code, response.json()["dropped"]) == (200, 3)
    assert served.agent.intake.counts["c"].dropped_newest == 3
    await served.client.aclose()


def test_a_value_that_is_too_deep_to_be_written_is_a_bad_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(*_: Any, **__: Any) -> str:
        raise RecursionError

    monkeypatch.setattr("bmq.databus.doors.json_lines.json.dumps", too_deep)
    with pytest.raises(BadLine, match="line 1: its JSON is too deep"):
        records_of_lines(b'{"value": [1]}')
