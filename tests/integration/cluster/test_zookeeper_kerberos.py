"""The election in a real ZooKeeper that demands logins by Kerberos, with a real KDC; and what is refused, in a sentence."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from bmq.dev.kdc import Kdc
from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper import ZooKeeperElection
from bmq.election.zookeeper_security import OPEN, ZooKeeperSecurity
from bmq.election.zookeeper_session_end import end_session
from bmq.election.zookeeper_wire import SessionKey
from testing.kdc import running_kdc, used_here
from testing.zookeeper import fresh_chroot, running_zookeeper
from tests.support.kerberized_zookeeper import KerberizedZooKeeper, kerberized_zookeeper
from tests.support.wrong_clock import clock_off_by
from tests.support.zookeeper_security import secure_zookeeper
from tests.unit.election.election_contract import CLUSTER_ID, member, until, within

pytestmark = pytest.mark.timeout(120)
in_gate = pytest.mark.contract
in_campaign = pytest.mark.campaign("zookeeper")

REFUSED_S: Final = 4.0
SESSION_S: Final = 20.0
"""Nobody here has the patience to wait for the end of such a session."""
TICKET_LIFE_S: Final = 10
# A process of its own starts an election by the settings in its environment, and says in one line what came of it.
START: Final = """
import asyncio, sys
from bmq.election.zookeeper import ZooKeeperElection
from bmq.election.election import ElectionError
from bmq.server.settings import load_settings
async def start():
    security = load_settings({}, None).settings.zookeeper_security
    election = ZooKeeperElection(sys.argv[1], node_id=1, start_wait_s=4.0, security=security)
    await election.start("orders")
    await election.close()
    return "started"
try:
    print(asyncio.run(start()))
except ElectionError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("realm")) as made, used_here(made):
        yield made


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, kdc: Kdc) -> Iterator[KerberizedZooKeeper]:
    made = kerberized_zookeeper(tmp_path_factory.mktemp("kerberized"), kdc)
    with running_zookeeper(made.server):
        yield made


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    return fresh_chroot(request.node.name)


def election(address: str, node_id: int, security: ZooKeeperSecurity, **more: Any) -> ZooKeeperElection:
    return ZooKeeperElection(address, node_id=node_id, security=security, session_timeout_s=SESSION_S, **more)


async def reign(address: str, *securities: ZooKeeperSecurity) -> None:
    """Join, lead, leave; seen by a second process."""
    one, two = election(address, 1, securities[0]), election(address, 2, securities[-1])
    try:
        await one.start(CLUSTER_ID)
        await two.start(CLUSTER_ID)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        await until(lambda: two.leader == claim and 1 in two.members, "it is seen")
        await one.close()
        assert (await within(two.campaign(member(2)))).epoch == claim.epoch + 1
    finally:
        await one.close()
        await two.close()


def refusal(address: str, security: ZooKeeperSecurity) -> str:
    async def start() -> str:
        refused = election(address, 3, security, start_wait_s=REFUSED_S)
        with pytest.raises(ElectionUnavailable) as error:
            await refused.start(CLUSTER_ID)
        return str(error.value)

    said = asyncio.run(start())
    assert "\n" not in said
    return said


async def owners(one: ZooKeeperElection, path: str) -> set[str]:
    acls, _ = await one._session.ask(lambda zookeeper: zookeeper.get_acls_async(path))
    return {f"{acl.id.scheme}:{acl.id.id}" for acl in acls}


# -- Let in --------------------------------------------------------------------------------------------------------------


@in_gate
def test_an_election_where_everybody_has_to_log_in(secure: KerberizedZooKeeper, root: str) -> None:
    asyncio.run(reign(secure.address + root, secure.security()))


@in_campaign
def test_a_ticket_cache_logs_in(
    secure: KerberizedZooKeeper, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.kdc.login("bmq", tmp_path / "tickets")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    asyncio.run(reign(secure.address + root, secure.security(principal="", keytab="")))


@in_gate
def test_nodes_belong_to_the_principal_as_zookeeper_writes_it(secure: KerberizedZooKeeper, root: str) -> None:
    """With its host and realm, unless zoo.cfg says otherwise: a process of another principal is told what to change."""

    async def story() -> None:
        one = election(secure.address + root, 1, secure.security("bmq/node1"))
        await one.start(CLUSTER_ID)
        try:
            await one.join(member(1))
            for path in (root, f"{root}/nodes", f"{root}/nodes/1"):
                assert await owners(one, path) == {f"sasl:bmq/node1@{secure.kdc.realm}"}
            two = election(secure.address + root, 2, secure.security("bmq/node2"), start_wait_s=REFUSED_S)
            with pytest.raises(ElectionUnavailable, match=r"give them one principal, or set kerberos\.removeHost"):
                await two.start(CLUSTER_ID)
        finally:
            await one.close()

    asyncio.run(story())


@in_campaign
def test_principals_of_hosts_are_one_user_where_zookeeper_takes_the_host_away(
    kdc: Kdc, root: str, tmp_path: Path
) -> None:
    made = kerberized_zookeeper(
        tmp_path / "zookeeper",
        kdc,
        service="zk/localhost",
        properties={"kerberos.removeHostFromPrincipal": "true", "kerberos.removeRealmFromPrincipal": "true"},
    )
    named = {"server_principal": f"zk/_HOST@{kdc.realm}"}

    async def story() -> None:
        await reign(made.address + root, made.security("bmq/node1", **named), made.security("bmq/node2", **named))
        one = election(made.address + root, 1, made.security("bmq/node1", **named))
        await one.start(CLUSTER_ID)
        assert await owners(one, root) == {"sasl:bmq"}
        await one.close()

    with running_zookeeper(made.server):
        asyncio.run(story())


# -- Reconnects ----------------------------------------------------------------------------------------------------------


@in_campaign
def test_a_session_outlives_its_ticket_a_restart_and_a_kdc_that_is_away(root: str, tmp_path: Path) -> None:
    """What was ephemeral stays, and the leader leads on."""
    with (
        running_kdc(tmp_path / "realm", ticket_life_s=TICKET_LIFE_S) as kdc,
        used_here(kdc),
        server_of(tmp_path, kdc) as made,
    ):

        async def story() -> None:
            one = election(made.address + root, 1, made.security())
            await one.start(CLUSTER_ID)
            try:
                await one.join(member(1))
                claim = await within(one.campaign(member(1)))
                session, over_at_s = one._session, time.time() + TICKET_LIFE_S
                await made.server.stop()
                await kdc.stop()
                await until(lambda: not session.is_connected and time.time() > over_at_s, "the ticket is over")
                await made.server.start()
                await until(lambda: "no KDC answers for the login of bmq@" in session.trouble, "it says why")
                await kdc.start()
                await until(lambda: session.is_connected, "it is back")
                await one.raise_epoch(claim.epoch + 7)
                assert session.number == 0 and one.leader == claim
            finally:
                await one.close()

        asyncio.run(story())


@in_campaign
def test_a_start_waits_for_the_kdc(root: str, tmp_path: Path) -> None:
    with running_kdc(tmp_path / "realm") as kdc, used_here(kdc), server_of(tmp_path, kdc) as made:
        security = made.security()

        async def story() -> None:
            await kdc.stop()
            one = election(made.address + root, 1, security, start_wait_s=60.0)
            starting = asyncio.ensure_future(one.start(CLUSTER_ID))
            await until(lambda: "no KDC answers for the login of bmq@" in one._session.trouble, "it says so")
            await kdc.start()
            await starting
            await one.close()

        asyncio.run(story())


@contextmanager
def server_of(directory: Path, kdc: Kdc) -> Iterator[KerberizedZooKeeper]:
    made = kerberized_zookeeper(directory / "zookeeper", kdc)
    with running_zookeeper(made.server):
        yield made


# -- Refused -------------------------------------------------------------------------------------------------------------


@in_gate
def test_without_a_login(secure: KerberizedZooKeeper, root: str) -> None:
    assert "it demands a login: set zookeeper_security.sasl_mechanism" in refusal(secure.address + root, OPEN)


@in_campaign
def test_a_kdc_that_is_away(
    secure: KerberizedZooKeeper, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = secure.kdc.krb5_conf.read_text().replace(f":{secure.kdc.port}", ":1")
    (tmp_path / "krb5.conf").write_text(text)
    security = secure.security()
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    assert "no KDC answers for the login of bmq@" in refusal(secure.address + root, security)


@in_campaign
def test_a_principal_that_the_kdc_does_not_know(secure: KerberizedZooKeeper, root: str) -> None:
    security = secure.security("gone")
    secure.kdc.admin(f"delprinc -force {secure.kdc.full('gone')}")
    said = refusal(secure.address + root, security)
    assert "the KDC does not know gone@" in said and "zookeeper_security.principal" in said


@in_campaign
def test_a_keytab_of_another_principal(secure: KerberizedZooKeeper, root: str) -> None:
    security = secure.security(keytab=str(secure.kdc.keytab("eve")))
    assert "eve.keytab has no usable key of bmq@" in refusal(secure.address + root, security)


@in_campaign
def test_old_keys(secure: KerberizedZooKeeper, root: str) -> None:
    security = secure.security("stale")
    secure.kdc.admin(f"cpw -randkey {secure.kdc.full('stale')}")
    assert "stale.keytab holds old keys of stale@" in refusal(secure.address + root, security)


@in_campaign
def test_a_server_principal_that_is_none(secure: KerberizedZooKeeper, root: str) -> None:
    said = refusal(secure.address + root, secure.security(server_principal="nobody/_HOST"))
    assert "the KDC does not know the principal of ZooKeeper at localhost" in said
    assert "zookeeper_security.server_principal" in said


@in_campaign
def test_a_server_principal_of_another_service(secure: KerberizedZooKeeper, root: str) -> None:
    """Its ticket is none for the server, which says so in its log alone."""
    secure.kdc.principal("other/localhost")
    said = refusal(secure.address + root, secure.security(server_principal="other/_HOST"))
    assert "does not accept our login" in said or "our login is not accepted" in said
    assert "present keys of zookeeper_security.server_principal" in said


@in_campaign
def test_an_address_for_a_host_name(secure: KerberizedZooKeeper, root: str) -> None:
    said = refusal(str(secure.server.address) + root, secure.security())
    assert "needs the server's host name: name it in zookeeper instead of the address 127.0.0.1" in said


@in_campaign
def test_a_server_that_knows_digest_md5_alone(kdc: Kdc, secure: KerberizedZooKeeper, root: str, tmp_path: Path) -> None:
    digest = secure_zookeeper(tmp_path / "digest", enforces_sasl=True)
    with running_zookeeper(digest.server):
        said = refusal(f"localhost:{digest.server.address.port}{root}", secure.security())
    assert "does not accept our login" in said or "our login is not accepted" in said


@in_campaign
@pytest.mark.parametrize("seconds", [900, -900])
async def test_a_clock_that_is_off(secure: KerberizedZooKeeper, root: str, tmp_path: Path, seconds: int) -> None:
    text = secure.kdc.krb5_conf.read_text()
    (tmp_path / "krb5.conf").write_text(text.replace("[libdefaults]", "[libdefaults]\n  kdc_timesync = 0"))
    told = {**secure.environment(), **clock_off_by(seconds), "KRB5_CONFIG": str(tmp_path / "krb5.conf")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START, secure.address + root, env={**os.environ, **told}, stdout=PIPE
    )
    told_lines, _ = await process.communicate()
    said = told_lines.splitlines()[-1]  # behind its log
    assert said.startswith(b"ElectionUnavailable: "), told_lines
    assert b"the clock of this machine differs from the KDC's or the server's" in said


# -- A dead process ------------------------------------------------------------------------------------------------------


@in_gate
@pytest.mark.parametrize("mechanism", ["GSSAPI", "DIGEST-MD5"])
def test_its_session_ends_where_the_server_enforces_logins(
    kdc: Kdc, secure: KerberizedZooKeeper, root: str, tmp_path: Path, mechanism: str
) -> None:
    async def story(address: str, security: ZooKeeperSecurity) -> None:
        keys: list[SessionKey] = []
        dead = election(address + root, 1, security, on_session=keys.append)
        other = election(address + root, 2, security)
        try:
            await dead.start(CLUSTER_ID)
            await dead.join(member(1))
            await other.start(CLUSTER_ID)
            assert 1 in other.members
            with pytest.raises(ElectionUnavailable):
                await asyncio.to_thread(end_session, [address], keys[0], 1.0, OPEN)
            assert await asyncio.to_thread(end_session, [address], keys[0], 10.0, security)
            assert not await asyncio.to_thread(end_session, [address], keys[0], 10.0, security)
            await until(lambda: other.members.get(1) is None or len(keys) > 1, "its entry is gone")
        finally:
            await dead.close()
            await other.close()

    if mechanism == "GSSAPI":
        asyncio.run(story(secure.address, secure.security()))
        return
    digest = secure_zookeeper(tmp_path / "digest", enforces_sasl=True)
    with running_zookeeper(digest.server):
        asyncio.run(story(str(digest.server.address), digest.security(tls=False, ca_file="")))
