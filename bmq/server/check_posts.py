"""Posts that ask HTTP services about half messages and open transactions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bmq.aio.http_handshakes import closing_handshakes
from bmq.broker.half_checker import CheckAnswer, CheckRequest, NobodyAsked
from bmq.log.clock import Clock
from bmq.metadata.half_configs import BadCheckUrl, CheckUrl, refuse_address
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.server.check_bodies import (
    ANSWER_BYTES_MAX,
    SECRET_BYTES_MIN,
    SignedPost,
    allowed_url,
    answer_of,
    body_of,
    signed,
)
from bmq.server.half_check_settings import HalfCheckSettings

if TYPE_CHECKING:
    import httpx

_SECRET_BYTES_MAX: Final = 4096


class CheckPosts:
    """Posts checks to hosts that the settings name. Addresses are looked at after a name was resolved, and asked as they are."""

    def __init__(self, settings: HalfCheckSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._room = asyncio.Semaphore(settings.posts_max)
        self._rooms: dict[str, tuple[asyncio.Semaphore, int]] = {}  # by URL, with how many use it

    async def ask(self, text: str, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        """As HalfChecker.ask."""

        async def body() -> bytes | None:
            request = await take()
            return None if request is None else body_of(request)

        answered = await self.post(text, body)
        return None if answered is None else answer_of(*answered)

    async def post(
        self, text: str, body: Callable[[], Awaitable[bytes | None]], on_post: Callable[[], None] = lambda: None
    ) -> tuple[int, bytes] | None:
        """Post `body()` when there is room for a request; status and body of the answer. None: there was nothing left to ask.

        `on_post` is called when it goes out: its host may be asked, and has an address.
        Raises NobodyAsked, KafkaError, and what `body` raises.
        """
        try:
            url = allowed_url(text, self._settings.hosts)
            secret = await asyncio.to_thread(read_secret, self._settings.secret_file)
        except (BadCheckUrl, BadSecret) as error:
            await body()  # so that their times pass
            raise NobodyAsked(str(error)) from error
        async with _Turn(self._rooms, text, self._settings.posts_per_url_max), self._room:
            data = await body()
            if data is None:
                return None
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    return await self._post(text, url, signed(data, secret, self._clock.now_ms()), on_post)
            except TimeoutError:
                why = f"{url.host}:{url.port} did not answer within {self._settings.timeout_s:g} s"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _post(self, text: str, url: CheckUrl, post: SignedPost, on_post: Callable[[], None]) -> tuple[int, bytes]:
        import httpx

        if self._client is None:
            # Proxies of the environment would resolve the name themselves.
            self._client = httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=False)
        try:
            address = await _resolved(url)
            named = httpx.URL(text)
            # An answer that is compressed all the same is not opened: a short one may become a long one.
            headers = {**post.headers, "host": named.netloc.decode("ascii"), "accept-encoding": "identity"}
            extensions = {"sni_hostname": url.host, "trace": closing_handshakes()}
            there = named.copy_with(host=address)
            body = bytearray()
            on_post()
            async with self._client.stream(
                "POST", there, content=post.body, headers=headers, extensions=extensions
            ) as response:
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        break
        except BadCheckUrl as error:
            raise NobodyAsked(str(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = f"{url.host}:{url.port} is not reached: {str(error) or type(error).__name__}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, why) from error
        return response.status_code, bytes(body)


class _Turn:
    """Waits until fewer than so many posts to a URL are under way."""

    def __init__(self, rooms: dict[str, tuple[asyncio.Semaphore, int]], url: str, posts_max: int) -> None:
        self._rooms = rooms
        self._url = url
        room, users = rooms.get(url) or (asyncio.Semaphore(posts_max), 0)
        self._room = room
        rooms[url] = room, users + 1

    async def __aenter__(self) -> None:
        try:
            await self._room.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._room.release()
        self._leave()

    def _leave(self) -> None:
        room, users = self._rooms[self._url]
        if users == 1:
            del self._rooms[self._url]
        else:
            self._rooms[self._url] = room, users - 1


async def _resolved(url: CheckUrl) -> str:
    """The first address of the host. Raises BadCheckUrl if one of them may not be asked, OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        refuse_address(address.partition("%")[0])
    return addresses[0]


class BadSecret(ValueError):
    """Why checks cannot be signed, in a sentence."""


def read_secret(path: str) -> bytes:
    """Raises BadSecret."""
    if not path:
        raise BadSecret("the setting half_checks.secret_file of this node is empty, and checks are signed")
    try:
        with Path(path).open("rb") as file:
            secret = file.read(_SECRET_BYTES_MAX + 1).strip()
    except OSError as error:
        raise BadSecret(f"{path} cannot be read: {error.strerror}") from error
    if not SECRET_BYTES_MIN <= len(secret) <= _SECRET_BYTES_MAX:
        raise BadSecret(f"{path} has to hold {SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX} bytes")
    return secret
