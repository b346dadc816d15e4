"""One logical call to the NameNodes of a cluster: chooses the NameNode, and when to try again.

A call keeps its client id and call id on every retry, also on another connection and at another NameNode. So the NameNodes'
retry cache, which is kept in their edit log, answers a `create`, `rename2` or `delete` that was carried out although its
answer was lost. If a NameNode is not active or unreachable, the next one is tried at once. After each round over all of them
there is a pause.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from random import Random
from typing import Final

import structlog
from google.protobuf.message import Message

from bmq.hdfs.authentication import Authentication
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import CallTimedOut, RemoteError, SafeMode, is_retriable, is_safe_mode, is_standby, store_error
from bmq.hdfs.proto.namenode_pb2 import SetTimesRequest, SetTimesResponse
from bmq.hdfs.rpc_codec import M
from bmq.hdfs.rpc_endpoint import Call, Endpoint
from bmq.log.store import StorageUnavailable, StoreError

log = structlog.get_logger("bmq.hdfs")

CLIENT_PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
CALLS_IN_FLIGHT_MAX: Final = 256  # more wait here: a NameNode's own queue is short, and it turns callers away
CALLS_WAITING_MAX: Final = 16_384
# LOGGED calls always write to the edit log. A replaced NameNode cannot do that, but it still answers READS.
LOGGED: Final = frozenset({"setTimes", "create", "append", "rename2", "addBlock", "updateBlockForPipeline"})
READS: Final = frozenset({"getLocatedFileInfo", "getListing", "getBlockLocations", "isFileClosed"})
UNCHANGED: Final = (1 << 64) - 1  # a time that `setTimes` leaves as it is: -1 as an unsigned number
TRY_LEAST_S: Final = 0.02  # with less time left, another try would only hide why the earlier ones failed

_CALL_ID_MAX: Final = (1 << 31) - 1


def new_client_id() -> bytes:
    """16 bytes that no other client has.

    They come from the operating system, not from an injected generator. Two clients with one seed would share an id, and a
    NameNode's retry cache would answer one client's calls with the other's results.
    """
    return uuid.uuid4().bytes


class Failover:
    """All NameNodes of a cluster behind one `call`. Remembers which is active."""

    def __init__(self, config: HdfsConfig, authentication: Authentication, random: Random) -> None:
        self._config = config
        self._random = random
        client_id = new_client_id()
        self._endpoints = tuple(
            Endpoint(
                address,
                CLIENT_PROTOCOL,
                authentication,
                client_id=client_id,
                connect_timeout_s=config.connect_timeout_s,
                # A little less than rpc_timeout_s: when a call times out after that long, the silence must already
                # count.
                silence_max_s=0.9 * config.rpc_timeout_s,
            )
            for address in config.namenodes
        )
        self._active = 0
        self._answered_last = 0
        self._proven: int | None = None  # the NameNode that has logged a change for us since we switched to it
        self._is_troubled = False
        self._is_closed = False
        self._last_call_id = -1
        self._slots = asyncio.Semaphore(CALLS_IN_FLIGHT_MAX)
        self._waiting_count = 0

    async def call(
        self,
        method: str,
        request: Message,
        response_type: type[M],
        *,
        path: str,
        retry_max_s: float | None,
    ) -> M:
        """Make the call within `retry_max_s` (None: as configured), all tries and pauses together.

        Raises what `store_error` makes of the NameNode's answer, SafeMode, AuthenticationRequired, and StorageUnavailable
        with the last answer of each NameNode.
        """
        answer, _ = await self.call_anywhere(method, request, response_type, path=path, retry_max_s=retry_max_s)
        return answer

    async def call_anywhere(
        self,
        method: str,
        request: Message,
        response_type: type[M],
        *,
        path: str,
        retry_max_s: float | None,
    ) -> tuple[M, int]:
        """As `call`. Returns the answer and which NameNode gave it (for `call_at`)."""
        loop = asyncio.get_running_loop()
        patience_s = self._config.retry_max_s if retry_max_s is None else retry_max_s
        deadline_s = loop.time() + patience_s
        call = Call(self._new_call_id(), method, request, response_type)
        troubles: dict[int, Exception] = {}
        pauses = 0
        tries = 0  # since the last pause
        while not self._is_closed:
            index = self._active
            tries_left = max(1, len(self._endpoints) - tries)
            if self._slots.locked():
                await self._wait_for_slot(method, path, deadline_s)
            else:
                await self._slots.acquire()
            share_s = max(0.0, deadline_s - loop.time()) / tries_left
            try:
                if self._proven != index and method in READS and len(self._endpoints) > 1:
                    await self._prove(index, min(self._config.rpc_timeout_s, share_s))
                answer = await self._endpoints[index].send(call, timeout_s=min(self._config.rpc_timeout_s, share_s))
                self._note_answer(index)
                if method in LOGGED and self._active == index:
                    self._proven = index
                return answer, index
            except RemoteError as error:
                if is_standby(error):
                    self._leave(index, str(error))
                elif is_safe_mode(error):
                    tries = len(self._endpoints)  # only time helps
                elif is_retriable(error):
                    # A NameNode that is still starting says this, too, and then the other may be active.
                    tries = len(self._endpoints)
                    self._leave(index, str(error))
                else:
                    self._note_answer(index)
                    raise store_error(error, path) from error
                troubles[index] = error
            except CallTimedOut as error:
                self._leave(index, str(error))
                if share_s >= self._config.rpc_timeout_s:
                    troubles[index] = error
                else:  # cut short by our own deadline: its earlier failure is the better reason
                    troubles.setdefault(index, error)
            except StorageUnavailable as error:
                self._leave(index, str(error))
                troubles[index] = error
            finally:
                self._slots.release()
            tries += 1
            if tries >= len(self._endpoints):
                pause_s = self._pause_s(pauses)
                if loop.time() + pause_s + TRY_LEAST_S >= deadline_s:
                    break
                await asyncio.sleep(pause_s)
                pauses += 1
                tries = 0
            if loop.time() + TRY_LEAST_S >= deadline_s:  # also where a pause has lasted longer than asked for
                break
        raise self._given_up(method, path, patience_s, troubles)

    async def call_at(self, index: int, method: str, request: Message, response_type: type[M], *, path: str) -> M:
        """Make the call once, at this NameNode only. Raises as `call`; StorageUnavailable if the NameNode cannot answer now."""
        loop = asyncio.get_running_loop()
        call = Call(self._new_call_id(), method, request, response_type)
        await self._wait_for_slot(method, path, loop.time() + self._config.rpc_timeout_s)
        try:
            return await self._endpoints[index].send(call, timeout_s=self._config.rpc_timeout_s)
        except RemoteError as error:
            if is_standby(error) or is_retriable(error):
                raise StorageUnavailable(
                    f"{path}: {method}: {self._failure_text(self._endpoints[index].address, error)}"
                ) from error
            raise store_error(error, path) from error
        except CallTimedOut as error:
            raise StorageUnavailable(f"{path}: {method}: {error}") from error
        finally:
            self._slots.release()

    def close(self) -> None:
        """Drop the connections; calls under way fail with StorageUnavailable."""
        self._is_closed = True
        for endpoint in self._endpoints:
            endpoint.close()

    async def _prove(self, index: int, timeout_s: float) -> None:
        """Have a NameNode log a change before we read from it: it may have been replaced without knowing it.

        See `NameNode.prove`. From then on its reads are at least as new as what we knew when we switched to it.
        """
        request = SetTimesRequest(src=self._config.root, mtime=time.time_ns() // 1_000_000, atime=UNCHANGED)
        call = Call(self._new_call_id(), "setTimes", request, SetTimesResponse)
        try:
            await self._endpoints[index].send(call, timeout_s=timeout_s)
        except RemoteError as error:
            if is_standby(error) or (is_retriable(error) and not is_safe_mode(error)):
                raise
            return  # in safe mode, or the root does not exist yet: reads there cannot prove anybody's ownership
        if self._active == index:
            self._proven = index

    async def _wait_for_slot(self, method: str, path: str, deadline_s: float) -> None:
        if self._waiting_count >= CALLS_WAITING_MAX:
            raise StorageUnavailable(f"{path}: {method}: {CALLS_WAITING_MAX} calls wait for the NameNodes already")
        self._waiting_count += 1
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._slots.acquire()
        except TimeoutError:
            raise StorageUnavailable(
                f"{path}: {method}: {CALLS_IN_FLIGHT_MAX} other calls were under way to the NameNodes all the time"
            ) from None
        finally:
            self._waiting_count -= 1

    def _new_call_id(self) -> int:
        self._last_call_id = (self._last_call_id + 1) & _CALL_ID_MAX
        return self._last_call_id

    def _pause_s(self, pauses: int) -> float:
        """The pause in seconds, with full jitter, so that callers that failed together do not retry together."""
        longest_s = min(self._config.retry_longest_s, self._config.retry_first_s * 2.0 ** min(pauses, 30))
        return self._random.uniform(0, longest_s)

    def _leave(self, index: int, reason: str) -> None:
        """The next call goes to the next NameNode, unless another call has moved on already."""
        if not self._is_troubled and not self._is_closed:
            self._is_troubled = True
            log.warning("namenode_left", address=str(self._endpoints[index].address), reason=reason)
        if self._proven == index:
            self._proven = None
        if self._active == index:
            self._active = (index + 1) % len(self._endpoints)

    def _note_answer(self, index: int) -> None:
        if self._is_troubled or self._answered_last != index:
            self._is_troubled = False
            self._answered_last = index
            log.info("namenode_answers", address=str(self._endpoints[index].address))

    def _given_up(self, method: str, path: str, patience_s: float, troubles: dict[int, Exception]) -> StoreError:
        if self._is_closed:
            return StorageUnavailable(f"{path}: {method}: the connections to HDFS were closed here")
        failures = "; ".join(
            self._failure_text(endpoint.address, troubles.get(index)) for index, endpoint in enumerate(self._endpoints)
        )
        if any(isinstance(trouble, RemoteError) and is_safe_mode(trouble) for trouble in troubles.values()):
            return SafeMode(f"{path}: the NameNode is in safe mode and takes no changes ({failures})")
        return StorageUnavailable(f"{path}: no NameNode carried out {method} within {patience_s:g} s ({failures})")

    @staticmethod
    def _failure_text(address: Address, trouble: Exception | None) -> str:
        if trouble is None:
            return f"{address}: not asked"
        return f"{address}: {trouble}" if isinstance(trouble, RemoteError) else str(trouble)  # ours names the address
