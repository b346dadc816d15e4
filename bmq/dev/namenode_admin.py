"""Administrator's commands to a NameNode of an HA pair: become active, become standby."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final

from bmq.hdfs.authentication import Authentication, SimpleAuthentication
from bmq.hdfs.config import Address
from bmq.hdfs.errors import RemoteError
from bmq.hdfs.location import system_user
from bmq.hdfs.proto.namenode_pb2 import (
    StateChangeRequestInfo,
    TransitionToActiveRequest,
    TransitionToActiveResponse,
)
from bmq.hdfs.rpc import RpcConnection
from bmq.log.store import StoreError
from bmq.protocol.errors import BmqError

HA_PROTOCOL: Final = "org.apache.hadoop.ha.HAServiceProtocol"
CONNECT_WAIT_S: Final = 2.0
RETRY_PAUSE_S: Final = 0.05


class TransitionFailed(BmqError):
    """A NameNode did not change its role, or did not say so in time."""


async def become_active(rpc: Address, timeout_s: float, login: Authentication | None = None) -> None:
    """The NameNode first reads the edits to their end. Raises TransitionFailed, after `timeout_s` at the latest.

    `login`: of a superuser; None: this process's user, by name.
    """
    await _transition(rpc, "transitionToActive", timeout_s, login)


async def become_standby(rpc: Address, timeout_s: float, login: Authentication | None = None) -> None:
    """Raises TransitionFailed, after `timeout_s` at the latest. `login`: as for `become_active`."""
    await _transition(rpc, "transitionToStandby", timeout_s, login)


async def _transition(rpc: Address, method: str, timeout_s: float, login: Authentication | None) -> None:
    deadline_s = time.monotonic() + timeout_s
    refusal: RemoteError | None = None
    while True:
        try:
            await _call(rpc, method, max(0.0, deadline_s - time.monotonic()), login)
            return
        except RemoteError as error:
            # It shows its role a moment before it takes calls; until then it answers that it has not started.
            if error.name != "RetriableException" or time.monotonic() + RETRY_PAUSE_S > deadline_s:
                raise _failed(rpc, method, error) from error
            refusal = error
        except StoreError as error:
            # An order without an answer in what was left of the time: what it last said says more.
            raise _failed(rpc, method, refusal or error) from error
        await asyncio.sleep(RETRY_PAUSE_S)


def _failed(rpc: Address, method: str, error: Exception) -> TransitionFailed:
    return TransitionFailed(f"{method} of the NameNode at {rpc} failed: {error}")


async def _call(rpc: Address, method: str, timeout_s: float, login: Authentication | None) -> None:
    # Only the user who runs the NameNode may do this; daemons take their user's name from the same two places.
    login = login or SimpleAuthentication(system_user())
    # The request to become standby has the same form.
    request = TransitionToActiveRequest(
        req_info=StateChangeRequestInfo(req_source=StateChangeRequestInfo.REQUEST_BY_USER)
    )
    connection = await RpcConnection.open(
        rpc, HA_PROTOCOL, login, client_id=uuid.uuid4().bytes, timeout_s=CONNECT_WAIT_S
    )
    try:
        await connection.call(
            method, request, TransitionToActiveResponse, call_id=0, retry_count=0, timeout_s=timeout_s
        )
    finally:
        connection.close()
