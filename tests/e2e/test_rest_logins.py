"""The REST address over TLS with logins, as an operator uses it: the command line, a token, a certificate, curl's ways."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
import pytest
import trustme

from bmq.rest_client.login import RestLogin
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.partition_owner import PartitionOwner
from bmq.spark.tables.cluster_tables import ClusterTable
from bmq.spark.tables.errors import TableJobError, TableMismatch
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import BmqServer, bmq_command

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(180)]

CHANGE_WAIT_S: Final = 60.0
PASSWORD: Final = "ops secret"


class SecuredServer(BmqServer):
    """With HTTPS, users, tokens and an authorizer; `ops` is the administrator. `files`: of it and its clients."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.files = directory.with_name("files")
        self.files.mkdir()
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(self.files / "ca.pem"))
        self.issue()
        probe = self.authority.issue_cert("probe@example.org", common_name="probe")
        self.write("probe.pem", probe.private_key_and_cert_chain_pem.bytes().decode())
        self.write("ops.secret", PASSWORD)
        self.tokens = self.files / "tokens.json"
        self.token = self.run("token", "create", "scraper", "--file", str(self.tokens)).stdout.strip()
        self.write("scraper.token", self.token)
        jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ops="{PASSWORD}";'
        configs = {
            "listener.name.rest.ssl.keystore.location": str(self.files / "node.pem"),
            "listener.name.rest.ssl.truststore.location": str(self.files / "ca.pem"),
            "listener.name.rest.ssl.client.auth": "requested",
            "listener.name.rest.plain.sasl.jaas.config": jaas,
            "listener.name.rest.ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ops;User:ANONYMOUS",
        }
        text = f'[rest_security]\nprotocol = "https"\nlogins = "basic,bearer"\ntokens_file = "{self.tokens}"\n[kafka]\n'
        self._settings = self.write(
            "bmq.toml", text + "".join(f"'{name}' = '{one}'\n" for name, one in configs.items())
        )

    def write(self, name: str, text: str) -> Path:
        """A file that is closed to others, in place of the one before."""
        made = self.files / f"{name}.new"
        made.write_text(text)
        made.chmod(0o600)
        return made.replace(self.files / name)

    def issue(self) -> None:
        """A new certificate for the node."""
        issued = self.authority.issue_cert("localhost", "127.0.0.1", organization_unit_name="nodes")
        self.write("node.pem", issued.private_key_and_cert_chain_pem.bytes().decode())

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [bmq_command(), *arguments],
            capture_output=True,
            text=True,
            timeout=Patience(60).limit_s,
            env={**os.environ, "NO_COLOR": "1", **variables},
        )

    def cluster(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        place = {"BMQ_REST_URL": self.url, "BMQ_REST_CA_FILE": str(self.files / "ca.pem")}
        return self.run("cluster", *arguments, **{**place, **variables})

    def get(self, path: str, token: str = "", ca_file: str = "ca.pem") -> tuple[int, str]:
        """Status and text; status 0 and the error when there was no answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify = RestLogin(str(self.files / ca_file)).context() or True
        try:
            answer = httpx.get(f"{self.url}{path}", headers=headers, verify=verify, timeout=Patience(30).limit_s)
        except httpx.HTTPError as error:
            return 0, str(error)
        return answer.status_code, answer.text

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.rest_port}"

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--config", str(self._settings)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    server = SecuredServer(tmp_path_factory.mktemp("rest") / "data")
    server.start()
    try:
        yield server
    finally:
        server.close()


def ops(server: SecuredServer) -> list[str]:
    return ["--rest-user", "ops", "--rest-password-file", str(server.files / "ops.secret")]


def test_the_command_line_logs_in_by_a_password(secured: SecuredServer) -> None:
    told = secured.cluster("status", "--json", *ops(secured))
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["cluster_id"]
    assert secured.cluster("nodes", *ops(secured)).returncode == 0


def test_without_a_login_or_with_a_wrong_one_nothing_is_told(secured: SecuredServer) -> None:
    told = secured.cluster("status")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("bmq: log in: this address wants HTTP Basic or a bearer token (--rest-user")
    wrong = secured.write("wrong.secret", "geheim")
    told = secured.cluster("status", "--rest-user", "ops", "--rest-password-file", str(wrong))
    assert told.stderr.startswith("bmq: the login is wrong, or has expired")
    assert "geheim" not in secured.process.log_of_this_run()
    assert secured.get("/metrics")[0] == secured.get("/docs")[0] == secured.get("/openapi.json")[0] == 401
    assert secured.get("/v1/health") == (200, '{"ready":true}')


def test_an_authority_that_is_not_known_is_said(secured: SecuredServer) -> None:
    told = secured.cluster("status", BMQ_REST_CA_FILE="")
    assert f"bmq: {secured.url} cannot be asked: its certificate is refused: " in told.stderr
    assert "--rest-ca-file" in told.stderr
    told = secured.cluster("status", BMQ_REST_URL=secured.url.replace("https", "http"))
    assert told.returncode == 1
    assert "Traceback" not in told.stderr


def test_a_token_and_a_certificate_have_their_users_rights(secured: SecuredServer) -> None:
    for variables, user in (
        ({"BMQ_REST_TOKEN_FILE": str(secured.files / "scraper.token")}, "scraper"),
        ({"BMQ_REST_CERTIFICATE_FILE": str(secured.files / "probe.pem")}, "probe"),
    ):
        refused = secured.cluster("status", **variables)
        assert refused.stderr == f"bmq: User:{user} has no right to DESCRIBE on the cluster\n"
        given = [
            "acl",
            "add",
            "--allow",
            f"User:{user}",
            "-o",
            "describe",
            "--cluster",
            "--bootstrap",
            secured.bootstrap,
        ]
        assert (added := secured.run(*given, "--yes")).returncode == 0, added.stderr
        assert secured.cluster("status", **variables).returncode == 0
        order = secured.cluster("rebalance", "--yes", **variables)
        assert order.stderr == f"bmq: User:{user} has no right to ALTER on the cluster\n"


def test_a_revoked_token_is_refused_soon(secured: SecuredServer) -> None:
    made = secured.run("token", "create", "short", "--file", str(secured.tokens))
    token = made.stdout.strip()
    secured.write("short.token", token)
    token_id = token.split("_")[1]
    variables = {"BMQ_REST_TOKEN_FILE": str(secured.files / "short.token")}

    def status() -> int:
        return secured.get("/v1/cluster", token)[0]

    eventually(lambda: status() == 403, CHANGE_WAIT_S, "the new token counts")
    assert "User:short has no right" in secured.cluster("status", **variables).stderr
    assert secured.run("token", "revoke", token_id, "--file", str(secured.tokens)).returncode == 0
    eventually(lambda: status() == 401, CHANGE_WAIT_S, "the revoked token is refused")
    assert "the login is wrong" in secured.cluster("status", **variables).stderr


def test_jobs_log_in_too(secured: SecuredServer) -> None:
    login = RestLogin(
        ca_file=str(secured.files / "ca.pem"), user="ops", password_file=str(secured.files / "ops.secret")
    )
    stranger = RestLogin(ca_file=login.ca_file)
    for who, sentence, kind in ((login, "has no table", TableMismatch), (stranger, "log in", TableJobError)):
        with closing(PartitionOwner(secured.url, who)) as owner, pytest.raises(JobFailed, match=r"there is no|log in"):
            owner.partitions("nothing")
        table = ClusterTable(secured.url, "nothing", who)
        with closing(table._client), pytest.raises(kind, match=sentence):
            table.definition()


def test_a_new_authority_replaces_the_old_one_without_a_restart(secured: SecuredServer) -> None:
    before = (secured.files / "ca.pem").read_text()
    secured.authority = trustme.CA()
    secured.write("ca.pem", before + secured.authority.cert_pem.bytes().decode())
    secured.issue()
    secured.write("new-ca.pem", secured.authority.cert_pem.bytes().decode())
    new = {"BMQ_REST_CA_FILE": str(secured.files / "new-ca.pem")}
    eventually(
        lambda: secured.get("/v1/health", ca_file="new-ca.pem")[0] == 200, CHANGE_WAIT_S, "the new certificate counts"
    )
    assert secured.cluster("status", *ops(secured), **new).returncode == 0
