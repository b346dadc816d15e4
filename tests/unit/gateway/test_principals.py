"""Users who are connected: one login for many calls, wrong ones remembered for a moment, bounded, closed when idle."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from bmq.gateway.credentials import Credentials
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.principal import Principal
from bmq.gateway.principals import Principals
from bmq.gateway.settings import GatewaySettings
from bmq.gateway.shared_bounds import SharedBounds

pytestmark = pytest.mark.unit


class Cluster:
    """Makes principals that log in without a cluster."""

    def __init__(self) -> None:
        self.logins: list[str] = []
        self.closed: list[str] = []
        self.right = "right"
        self.open = asyncio.Event()
        self.open.set()

    def make(self, config: Mapping[str, Any], shared: SharedBounds, credentials: Credentials) -> Principal:
        return cast("Principal", LoggingIn(self, credentials))


class LoggingIn:
    def __init__(self, cluster: Cluster, credentials: Credentials) -> None:
        self._cluster = cluster
        self.credentials = credentials
        self.users = 0
        self.idle_since_s = 0.0
        self.logged_in_s = 0.0

    def tick(self) -> None:
        """Nothing calls back."""

    async def log_in(self) -> None:
        self._cluster.logins.append(self.credentials.user)
        await self._cluster.open.wait()
        if self.credentials.password not in ("", self._cluster.right):
            raise GatewayFailed("UNAUTHENTICATED", "the cluster refuses this login")

    async def close(self) -> None:
        self._cluster.closed.append(self.credentials.user)


def principals(cluster: Cluster, **settings: Any) -> Principals:
    shared = SharedBounds(GatewaySettings(security_protocol="SASL_PLAINTEXT", **settings))
    return Principals(shared, lambda: 0.0, cluster.make, b"salt")


async def test_calls_of_one_user_share_one_login() -> None:
    cluster = Cluster()
    cluster.open.clear()
    users = principals(cluster)
    async with AsyncExitStack() as stack:
        entering = [
            asyncio.ensure_future(stack.enter_async_context(users.of(Credentials("alice", "right")))) for _ in range(5)
        ]
        await asyncio.sleep(0)
        cluster.open.set()
        found = await asyncio.gather(*entering)
        assert len(set(map(id, found))) == 1
        assert found[0].users == 5
    assert (cluster.logins, found[0].users) == (["alice"], 0)
    await users.close()
    assert cluster.closed == ["alice"]
    with pytest.raises(GatewayFailed, match="stops"):
        await users.of(Credentials("bob", "right")).__aenter__()


async def test_a_wrong_login_is_not_asked_again_at_once() -> None:
    cluster = Cluster()
    users = principals(cluster, failed_login_ms=60_000)
    for _ in range(3):
        with pytest.raises(GatewayFailed) as failed:
            await users.of(Credentials("alice", "wrong")).__aenter__()
        assert failed.value.status == "UNAUTHENTICATED"
    assert cluster.logins == ["alice"]
    async with users.of(Credentials("alice", "right")):
        assert users.count == 1
    await users.close()
    assert cluster.closed == ["alice", "alice"]


async def test_the_number_of_users_is_bounded_and_idle_ones_make_room() -> None:
    cluster = Cluster()
    users = principals(cluster, principals_max=2)
    async with users.of(Credentials("a", "right")):
        async with users.of(Credentials("b", "right")):
            with pytest.raises(GatewayFailed, match="2 users are connected") as failed:
                await users.of(Credentials("c", "right")).__aenter__()
            assert failed.value.status == "RESOURCE_EXHAUSTED"
        async with users.of(Credentials("c", "right")):
            assert users.count == 2
    await users.close()
    assert sorted(cluster.closed) == ["a", "b", "c"]


async def test_users_without_a_call_are_closed_after_their_time() -> None:
    cluster = Cluster()
    users = principals(cluster, principal_idle_ms=100)
    async with users.of(Credentials("busy", "right")):
        async with users.of(Credentials("idle", "right")) as idle:
            users.tidy()
            assert users.count == 2
        idle.idle_since_s = asyncio.get_running_loop().time() - 0.2
        users.tidy()
        assert users.count == 1
    await users.close()
    assert cluster.closed == ["idle", "busy"]


async def test_no_login_where_the_cluster_takes_none() -> None:
    cluster = Cluster()
    users = principals(cluster)
    with pytest.raises(GatewayFailed, match="needs a login"):
        await users.of(Credentials()).__aenter__()
    assert cluster.logins == []


def make_old(principal: Principal) -> None:
    principal.logged_in_s = asyncio.get_running_loop().time() - 601


async def test_an_old_login_is_checked_once_and_its_clients_stay() -> None:
    cluster = Cluster()
    users = principals(cluster)
    alice = Credentials("alice", "right")
    async with users.of(alice) as first:
        make_old(first)
        async with users.of(alice) as second, users.of(alice) as third:
            assert first is second is third
    assert cluster.logins == ["alice", "alice"]
    await users.close()
    assert cluster.closed == ["alice", "alice"]


async def test_after_a_change_of_the_password_there_are_no_new_calls() -> None:
    cluster = Cluster()
    users = principals(cluster)
    alice = Credentials("alice", "right")
    async with users.of(alice) as first:
        cluster.right = "other"
        async with users.of(alice):
            """The login is young."""
        make_old(first)
        for _ in range(2):
            with pytest.raises(GatewayFailed) as failed:
                await users.of(alice).__aenter__()
            assert failed.value.status == "UNAUTHENTICATED"
        assert (users.count, cluster.logins) == (1, ["alice", "alice"])  # its open call goes on
        users.tidy()
    assert users.count == 0
    await users.close()
    assert cluster.closed == ["alice", "alice"]


async def test_an_old_login_without_a_call_is_closed_when_it_is_refused() -> None:
    cluster = Cluster()
    users = principals(cluster)
    alice = Credentials("alice", "right")
    async with users.of(alice) as first:
        make_old(first)
    cluster.right = "other"
    with pytest.raises(GatewayFailed):
        await users.of(alice).__aenter__()
    assert users.count == 0
    await users.close()
    assert cluster.closed == ["alice", "alice"]


async def test_a_token_is_refused_past_its_end() -> None:
    cluster = Cluster()
    now_s = 99.0
    users = Principals(
        SharedBounds(GatewaySettings(security_protocol="SASL_PLAINTEXT")), lambda: now_s, cluster.make, b"salt"
    )
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 100}).encode()).decode().rstrip("=")
    token = Credentials(token=f"x.{claims}.x")
    async with users.of(token):
        now_s = 100.0
        with pytest.raises(GatewayFailed, match="the token has ended") as failed:
            await users.of(token).__aenter__()
    assert failed.value.status == "UNAUTHENTICATED"
    async with users.of(Credentials(token="no-end")):
        """The cluster decides about a token that does not say when it ends."""
    await users.close()
