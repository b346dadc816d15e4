"""Files of a cluster's authority: certificates of nodes as `bmq cluster ca` makes them, and those that nodes must refuse."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bmq.cli import node_authority
from bmq.security.node_certificates import NODE_URI

HERE = "127.0.0.1"
_DAY = datetime.timedelta(days=1)


class NodePki:
    """`directory`: the authority's. Every method writes one PEM file and returns its path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        node_authority.make_authority(directory, f"authority {directory.name}", 30, _now())

    @property
    def ca_file(self) -> Path:
        return self.directory / node_authority.CERTIFICATE

    def node(self, name: str = "node", *hosts: str) -> Path:
        """A node's certificate; its renewal, if it was issued before."""
        return node_authority.issue(self.directory, name, hosts or (HERE, "localhost"), 10, _now()).path

    def client(self) -> Path:
        """Of a client for both sides: it lacks only the name of a node."""
        return self._write("client", [])

    def for_one_side(self, *, is_client: bool) -> Path:
        """Of a node, by its name, that may not be shown on the other side."""
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        return self._write(f"one-side-{is_client}", [_NODE], usages=[usage])

    def expired(self) -> Path:
        return self._write("expired", [_NODE], start=-2 * _DAY, end=-_DAY)

    def not_yet_valid(self) -> Path:
        return self._write("early", [_NODE], start=_DAY, end=2 * _DAY)

    def self_signed(self) -> Path:
        return self._write("self-signed", [_NODE], is_self_signed=True)

    def _write(
        self,
        name: str,
        more_names: Sequence[x509.GeneralName],
        *,
        start: datetime.timedelta = -_DAY,
        end: datetime.timedelta = _DAY,
        usages: Sequence[Any] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
        is_self_signed: bool = False,
    ) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
        signer = serialization.load_pem_private_key((self.directory / node_authority.KEY).read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HERE)), *more_names]
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_self_signed else authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_now() + start)
            .not_valid_after(_now() + end)
            .add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(key if is_self_signed else signer, hashes.SHA256())
        )
        path = self.directory / f"{name}.pem"
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
        path.chmod(0o600)
        return path


_NODE = x509.UniformResourceIdentifier(f"{NODE_URI}other")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
