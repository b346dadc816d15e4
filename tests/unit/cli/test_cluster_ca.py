"""`bmq cluster ca`: an authority, certificates of nodes and their renewal, and what is refused without a change."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner, Result

from bmq.cli import cluster_ca
from bmq.cli.commands import app
from bmq.protocol.errors import BmqError
from bmq.security.node_certificates import node_of

pytestmark = pytest.mark.unit


def ca(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["cluster", "ca", *map(str, arguments)])


def refusal(*arguments: str | Path) -> str:
    """The sentence of a command that has to fail."""
    result = ca(*arguments)
    assert isinstance(result.exception, BmqError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    made = tmp_path / "ca"
    assert ca("init", made).exit_code == 0
    return made


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_an_authority_is_made_once(authority: Path) -> None:
    before = {path.name: path.read_bytes() for path in authority.iterdir()}
    assert sorted(before) == ["ca.key", "ca.pem"]
    assert (mode(authority / "ca.key"), mode(authority / "ca.pem"), mode(authority)) == (0o600, 0o644, 0o700)
    made = certificate(authority / "ca.pem")
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value.ca
    assert "is there already" in refusal("init", authority)
    (authority / "ca.pem").unlink()
    assert "ca.key is there already" in refusal("init", authority)
    assert (authority / "ca.key").read_bytes() == before["ca.key"]


def test_a_node_gets_a_certificate_of_its_hosts_for_both_sides(authority: Path) -> None:
    result = ca("issue", "node-1", "--dir", authority, "--host", "node-1.example.org", "--host", "10.0.0.1")
    assert result.exit_code == 0, result.output
    path = authority / "node-1.pem"
    assert mode(path) == 0o600
    made = certificate(path)
    made.verify_directly_issued_by(certificate(authority / "ca.pem"))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1.example.org"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["urn:bmq:node:node-1"]
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    days = (made.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
    assert days in (364, 365)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)


def test_issuing_again_renews_with_a_new_key_for_the_same_hosts(authority: Path) -> None:
    assert ca("issue", "n", "--dir", authority, "--host", "a.example", "--host", "::1").exit_code == 0
    before = certificate(authority / "n.pem")
    result = ca("issue", "n", "--dir", authority, "--days", "3")
    assert "renewed" in result.output
    after = certificate(authority / "n.pem")
    assert after.serial_number != before.serial_number
    assert after.public_key() != before.public_key()
    kept = x509.SubjectAlternativeName
    assert after.extensions.get_extension_for_class(kept) == before.extensions.get_extension_for_class(kept)
    assert ca("issue", "n", "--dir", authority, "--host", "b.example").exit_code == 0
    names = certificate(authority / "n.pem").extensions.get_extension_for_class(kept).value
    assert names.get_values_for_type(x509.DNSName) == ["b.example"]


@pytest.mark.parametrize("name", ["", "a b", "ä", "-a", "x" * 65, "a/b", ".."])
def test_names_that_are_none(authority: Path, name: str) -> None:
    assert "is no name of a node" in refusal("issue", "--dir", authority, "--host", "h", "--", name)


@pytest.mark.parametrize("host", ["", "a b", "a..b", "*.*", "a:1", "1.2.3", "x" * 254, "ä"])
def test_hosts_that_are_none(authority: Path, host: str) -> None:
    assert "neither a host name nor an address" in refusal("issue", "n", "--dir", authority, "--host", host)
    assert not (authority / "n.pem").exists()


def test_a_file_that_is_no_certificate_of_the_node_is_never_replaced(authority: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert ca("init", other).exit_code == 0
    foreign, text, own = authority / "foreign.pem", authority / "text.pem", authority / "own.pem"
    assert ca("issue", "foreign", "--dir", other, "--host", "h", "--out", foreign).exit_code == 0
    assert ca("issue", "own", "--dir", authority, "--host", "h").exit_code == 0
    text.write_text("mine")
    before = [path.read_bytes() for path in (foreign, text, own)]
    for name in ("foreign", "text"):
        assert "stays: name another --out" in refusal("issue", name, "--dir", authority, "--host", "h")
    assert "stays: name another --out" in refusal("issue", "else", "--dir", authority, "--host", "h", "--out", own)
    assert "authority's own file" in refusal("issue", "ca", "--dir", authority, "--host", "h")
    assert [path.read_bytes() for path in (foreign, text, own)] == before


def test_without_hosts_a_first_certificate_is_refused(authority: Path) -> None:
    assert "by --host" in refusal("issue", "n", "--dir", authority)


def test_an_authority_that_is_not_whole(authority: Path, tmp_path: Path) -> None:
    assert "bmq cluster ca init" in refusal("issue", "n", "--dir", tmp_path / "none", "--host", "h")
    key = authority / "ca.key"
    key.chmod(0o640)
    assert "chmod 0600" in refusal("issue", "n", "--dir", authority, "--host", "h")
    other = tmp_path / "other"
    ca("init", other)
    key.chmod(0o600)
    key.write_bytes((other / "ca.key").read_bytes())
    assert "is not the key of" in refusal("issue", "n", "--dir", authority, "--host", "h")
    key.write_text("no key")
    assert "are not what" in refusal("issue", "n", "--dir", authority, "--host", "h")


def test_no_certificate_outlives_its_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "ca"
    assert ca("init", made, "--days", "2").exit_code == 0
    assert ca("issue", "n", "--dir", made, "--host", "h").exit_code == 0
    assert certificate(made / "n.pem").not_valid_after_utc == certificate(made / "ca.pem").not_valid_after_utc
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    monkeypatch.setattr(cluster_ca, "_now", lambda: later)
    assert "make another authority" in refusal("issue", "n", "--dir", made)


def test_the_package_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_ca, "find_spec", lambda _: None)
    assert "needs another package" in refusal("init", tmp_path / "ca")
    assert not (tmp_path / "ca").exists()


def test_which_certificates_are_of_a_node() -> None:
    def of(*names: tuple[str, str]) -> str | None:
        return node_of({"subject": (), "subjectAltName": names})

    assert of(("DNS", "a"), ("URI", "urn:bmq:node:node-1")) == "node-1"
    assert of(("DNS", "urn:bmq:node:node-1")) is None
    assert of(("URI", "urn:bmq:client:node-1")) is None
    assert of(("URI", "urn:bmq:node:")) is None
    assert of(("URI", "urn:bmq:node:a b")) is None
    assert of() is None
    assert node_of({"subject": ()}) is None
    assert node_of({}) is None
    assert node_of(None) is None
