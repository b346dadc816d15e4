"""A listener's certificate, key and trust: what is wrong is one sentence that names the file and has no secret."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from bmq.server.tls import WrongTls, fault_of, make_context, tls_files

pytestmark = pytest.mark.unit

PASSWORD = "hunter2"


class Pki:
    """PEM files of an authority and a node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA()
        self.node = self.authority.issue_cert("localhost")
        self.ca = self._write("ca.pem", self.authority.cert_pem.bytes())
        self.keystore = self._write("node.pem", self.node.private_key_and_cert_chain_pem.bytes())

    def _write(self, name: str, data: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(data)
        path.chmod(0o600)
        return path

    def encrypted(self) -> Path:
        key = serialization.load_pem_private_key(self.node.private_key_pem.bytes(), None)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
        return self._write("encrypted.pem", pem + self.node.cert_chain_pems[0].bytes())

    def of_another(self) -> Path:
        other = self.authority.issue_cert("localhost")
        return self._write("mixed.pem", other.private_key_pem.bytes() + self.node.cert_chain_pems[0].bytes())

    def key_alone(self) -> Path:
        return self._write("key.pem", self.node.private_key_pem.bytes())

    def readable_by_all(self) -> Path:
        path = self._write("open.pem", self.node.private_key_and_cert_chain_pem.bytes())
        path.chmod(0o644)
        return path

    def valid(self, from_days: int, to_days: int) -> Path:
        """A node's certificate, valid between days from now."""
        now = datetime.datetime.now(datetime.UTC)
        made = self.authority.issue_cert(
            "localhost",
            not_before=now + datetime.timedelta(days=from_days),
            not_after=now + datetime.timedelta(days=to_days),
        )
        return self._write("dated.pem", made.private_key_and_cert_chain_pem.bytes())


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


def context_of(configs: Mapping[str, str]) -> ssl.SSLContext:
    return make_context(
        tls_files({f"ssl.{name}": value for name, value in configs.items()}, "SSL", has_own_names=False)
    )


def test_a_certificate_with_its_key_and_trust(pki: Pki) -> None:
    context = context_of(
        {"keystore.location": str(pki.keystore), "truststore.location": str(pki.ca), "client.auth": "required"}
    )
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2 and context.num_tickets == 0


def test_an_encrypted_key_with_its_password_and_pem_in_the_settings(pki: Pki) -> None:
    context_of({"keystore.location": str(pki.encrypted()), "key.password": PASSWORD})
    chain = pki.node.cert_chain_pems[0].bytes().decode()
    context_of({"keystore.key": pki.node.private_key_pem.bytes().decode(), "keystore.certificate.chain": chain})


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        (lambda pki: {}, "has no certificate: set ssl.keystore.location"),
        (lambda pki: {"keystore.location": str(pki.encrypted())}, "encrypted: set ssl.key.password"),
        (
            lambda pki: {"keystore.location": str(pki.encrypted()), "key.password": "x"},
            "set ssl.key.password, or check",
        ),
        (lambda pki: {"keystore.location": str(pki.of_another())}, "does not belong to the first certificate"),
        (lambda pki: {"keystore.location": str(pki.key_alone())}, "lacks a private key in PKCS#8 or a certificate"),
        (lambda pki: {"keystore.location": str(pki.readable_by_all())}, "read or written by others: chmod 0600"),
        (lambda pki: {"keystore.location": "/none.pem"}, "/none.pem does not exist"),
        (lambda pki: {"keystore.location": str(pki.keystore), "keystore.type": "JKS"}, "only PEM is read"),
        (lambda pki: {"keystore.location": str(pki.keystore), "keystore.password": PASSWORD}, "have no password"),
        (lambda pki: {"keystore.key": "x"}, "belong together"),
        (lambda pki: {"keystore.location": str(pki.keystore), "client.auth": "required"}, "trusts none"),
        (lambda pki: {"keystore.location": str(pki.keystore), "client.auth": "maybe"}, "may be none, requested"),
        (lambda pki: {"keystore.location": str(pki.keystore), "enabled.protocols": "SSLv3"}, "may have TLSv1.2"),
        (
            lambda pki: {"keystore.location": str(pki.keystore), "cipher.suites": "ROT13"},
            "no cipher that OpenSSL knows",
        ),
        (
            lambda pki: {"keystore.location": str(pki.keystore), "principal.mapping.rules": "X"},
            "neither DEFAULT nor RULE",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence(pki: Pki, configs: Callable[[Pki], Mapping[str, str]], why: str) -> None:
    with pytest.raises(WrongTls, match=why) as refused:
        context_of(configs(pki))
    assert PASSWORD not in str(refused.value)


def test_where_clients_log_in_certificates_are_asked_for_by_the_listeners_own_config_alone(pki: Pki) -> None:
    configs = {
        "ssl.keystore.location": str(pki.keystore),
        "ssl.truststore.location": str(pki.ca),
        "ssl.client.auth": "required",
    }
    assert tls_files(configs, "X", has_own_names=True).client_auth == "none"
    own = {**configs, "listener.name.x.ssl.client.auth": "required"}
    assert tls_files(own, "X", has_own_names=True).client_auth == "required"


@pytest.mark.parametrize("auth", ["none", "required"])
@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("days", "why"), [((-1, 1), ""), ((-2, -1), "certificate has expired"), ((1, 2), "certificate is not yet valid")]
)
def test_a_certificate_that_clients_will_refuse_is_noticed(
    pki: Pki, auth: str, versions: str, days: tuple[int, int], why: str
) -> None:
    path = pki.valid(*days)
    configs = {
        "ssl.keystore.location": str(path),
        "ssl.truststore.location": str(pki.ca),
        "ssl.client.auth": auth,
        "ssl.enabled.protocols": versions,
    }
    files = tls_files(configs, "SSL", has_own_names=False)
    sentence = f"clients will refuse the certificate of {path}: {why}" if why else ""
    assert fault_of(files, make_context(files)) == sentence
