"""Checks of half messages that are posted to a server on this machine."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bmq.broker.half_checker import Check, CheckAnswer, CheckRequest, NobodyAsked
from bmq.protocol.errors import KafkaError
from bmq.server.check_posts import CheckPosts
from bmq.server.half_check_settings import HalfCheckSettings
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.unit

REQUEST = CheckRequest("orders", 0, (Check(7, "one", 1),))
Answer = Callable[[bytes], Awaitable[bytes]]


async def take() -> CheckRequest | None:
    return REQUEST


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """One answer to each connection; its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            writer.write(await answer(head + await reader.readexactly(length)))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answer(status: int, body: bytes, *more: bytes) -> bytes:
    head = b"\r\n".join((b"HTTP/1.1 %d x" % status, b"content-length: %d" % len(body), b"connection: close", *more))
    return head + b"\r\n\r\n" + body


@asynccontextmanager
async def posting(tmp_path: Path, **settings: object) -> AsyncIterator[CheckPosts]:
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef\n")
    made = HalfCheckSettings(**{"hosts": ("127.0.0.1",), "secret_file": str(secret), **settings})  # type: ignore[arg-type]
    posts = CheckPosts(made, FakeClock())
    try:
        yield posts
    finally:
        await posts.close()


async def test_a_check_is_posted_and_its_answer_taken(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def decide(request: bytes) -> bytes:
        seen.append(request)
        return answer(200, b'{"commit": [7]}')

    async with serving(decide) as port, posting(tmp_path) as posts:
        assert await posts.ask(f"http://127.0.0.1:{port}/check?a=b", take) == CheckAnswer((7,))
        head, _, body = seen[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /check?a=b HTTP/1.1") and b"bmq-signature: t=" in head
        assert b"host: 127.0.0.1:%d" % port in head.lower()
        assert json.loads(body)["checks"] == [{"id": "one", "offset": 7, "check": 1}]

        async def nothing() -> CheckRequest | None:
            return None

        assert await posts.ask(f"http://127.0.0.1:{port}/", nothing) is None
        assert len(seen) == 1, "what was decided meanwhile is not asked"


async def test_redirects_are_not_followed_and_long_answers_are_cut(tmp_path: Path) -> None:
    answers = [answer(302, b"", b"location: http://127.0.0.1:1/"), answer(500, b"x"), answer(200, b"x" * 200_000)]

    async def decide(_: bytes) -> bytes:
        return answers.pop(0)

    async with serving(decide) as port, posting(tmp_path) as posts:
        for words in ("status 302", "status 500", "more than 65536 bytes"):
            with pytest.raises(KafkaError, match=words):
                await posts.ask(f"http://127.0.0.1:{port}/", take)


async def test_a_compressed_answer_is_not_opened(tmp_path: Path) -> None:
    async def decide(request: bytes) -> bytes:
        assert b"accept-encoding: identity" in request.lower()
        return answer(200, gzip.compress(b'{"commit": [7]}' + b" " * 5_000_000), b"content-encoding: gzip")

    async with serving(decide) as port, posting(tmp_path) as posts:
        with pytest.raises(KafkaError, match="its answer"):
            await posts.ask(f"http://127.0.0.1:{port}/", take)


async def test_a_server_that_hangs_is_left_after_the_timeout(tmp_path: Path) -> None:
    hangs = asyncio.Event()

    async def decide(_: bytes) -> bytes:
        await hangs.wait()
        return b""

    async with serving(decide) as port, posting(tmp_path, timeout_s=0.2) as posts:
        with pytest.raises(KafkaError, match=r"did not answer within 0\.2 s"):
            await posts.ask(f"http://127.0.0.1:{port}/", take)
        hangs.set()


async def test_no_more_posts_than_the_bound_to_one_url(tmp_path: Path) -> None:
    under_way, most = 0, 0
    go_on, are_two = asyncio.Event(), asyncio.Event()

    async def decide(_: bytes) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 2:
            are_two.set()
        await go_on.wait()
        under_way -= 1
        return answer(204, b"")

    async with serving(decide) as port, posting(tmp_path, posts_per_url_max=2) as posts:
        url = f"http://127.0.0.1:{port}/"
        asked = [asyncio.ensure_future(posts.ask(url, take)) for _ in range(6)]
        await are_two.wait()
        go_on.set()
        assert await asyncio.gather(*asked) == [CheckAnswer()] * 6
        assert most <= 2 and posts._rooms == {}


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        ("http://127.0.0.1:1/", {"hosts": ()}, "does not name 127.0.0.1:1"),
        ("http://169.254.169.254/", {"hosts": ("169.254.169.254",)}, "metadata services"),
        ("http://127.0.0.1:1/", {"secret_file": ""}, "checks are signed"),
        ("http://127.0.0.1:1/", {"secret_file": "/nowhere/at/all"}, "cannot be read"),
    ],
)
async def test_what_may_not_be_asked_is_not(tmp_path: Path, url: str, settings: dict[str, object], words: str) -> None:
    async with posting(tmp_path, **settings) as posts:
        with pytest.raises(NobodyAsked, match=words):
            await posts.ask(url, take)


async def test_a_name_that_stands_for_a_metadata_service_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("127.0.0.1", 80)), (2, 1, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    async with posting(tmp_path, hosts=("orders.example",)) as posts:
        with pytest.raises(NobodyAsked, match=r"169\.254\.169\.254 is a link-local"):
            await posts.ask("http://orders.example/", take)


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    async with serving(take) as port:  # type: ignore[arg-type]
        pass
    async with posting(tmp_path) as posts:
        with pytest.raises(KafkaError, match="is not reached"):
            await posts.ask(f"http://127.0.0.1:{port}/", take)
