"""A Kafka client's connection in the simulation: the product's own codec over asyncio streams."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from bmq.protocol.codec import decode_response, encode_request

ANSWER_WAIT_S = 12.0


class Disconnected(Exception):
    """The connection ended, or an answer did not come; whether the request was carried out is unknown."""


class Connection:
    """Requests are answered in order, so several may be under way.

    `patience_s`: then an answer is given up, and the connection with it.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str, patience_s: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._patience_s = patience_s
        self._correlation_id = 0

    @classmethod
    async def open(cls, host: str, port: int, client_id: str, patience_s: float = ANSWER_WAIT_S) -> Connection:
        try:
            async with asyncio.timeout(patience_s):
                reader, writer = await asyncio.open_connection(host, port, limit=2**24)
        except (OSError, TimeoutError) as error:
            raise Disconnected(str(error)) from error
        return cls(reader, writer, client_id, patience_s)

    async def leave(self, api_key: int, version: int, message: Any, dice: random.Random) -> None:
        """Send a part of a request, or all of it, and go without an answer. Raises Disconnected always."""
        frame = encode_request(api_key, version, self._correlation_id + 1, self._client_id, message)
        data = len(frame).to_bytes(4, "big") + frame
        self._writer.write(data[: dice.choice((len(data), dice.randrange(len(data))))])
        await asyncio.sleep(dice.choice((0.0, 0.01)))
        self.close()
        raise Disconnected("the client left")

    async def send(self, api_key: int, version: int, message: Any) -> None:
        """A request that is never answered (acks=0). Raises Disconnected."""
        try:
            self._correlation_id += 1
            frame = encode_request(api_key, version, self._correlation_id, self._client_id, message)
            self._writer.write(len(frame).to_bytes(4, "big") + frame)
            await self._writer.drain()
        except OSError as error:
            self.close()
            raise Disconnected(repr(error)) from error

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        return (await self.requests(api_key, version, [message]))[0]

    async def requests(self, api_key: int, version: int, messages: list[Any]) -> list[Any]:
        """Send all, then take all answers. Raises Disconnected."""
        try:
            async with asyncio.timeout(self._patience_s):
                first = self._correlation_id + 1
                for message in messages:
                    self._correlation_id += 1
                    frame = encode_request(api_key, version, self._correlation_id, self._client_id, message)
                    self._writer.write(len(frame).to_bytes(4, "big") + frame)
                return [await self._answer(api_key, version, first + n) for n in range(len(messages))]
        except (OSError, EOFError, TimeoutError) as error:
            self.close()
            raise Disconnected(repr(error)) from error

    async def _answer(self, api_key: int, version: int, correlation_id: int) -> Any:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        answered, message = decode_response(api_key, version, await self._reader.readexactly(size))
        assert answered == correlation_id, f"answer {answered} where {correlation_id} was due"
        return message

    def close(self) -> None:
        self._writer.close()
