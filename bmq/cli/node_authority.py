"""A cluster's certificate authority as files: DIR/ca.pem and DIR/ca.key, and a PEM file for each node.

Only the package `cryptography` makes certificates, keys and signatures. Files replace others as a whole, so that a node
that reads one never sees half of it.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError
from bmq.security.node_certificates import NODE_URI, is_host, is_ip_address, is_node_name

CERTIFICATE: Final = "ca.pem"
KEY: Final = "ca.key"
CLOCK_SKEW: Final = datetime.timedelta(minutes=5)
"""Machines whose clocks are this far behind accept a new certificate at once."""
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


class AuthorityRefused(BmqError):
    """It is not made, or does not issue; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A node's certificate as it was written. `is_renewed`: it took the place of an earlier one."""

    path: Path
    hosts: tuple[str, ...]
    ends: datetime.datetime
    is_renewed: bool


def make_authority(directory: Path, name: str, days: int, now: datetime.datetime) -> datetime.datetime:
    """Write a new authority's certificate and key; the end of its validity. Raises AuthorityRefused."""
    for path in (directory / CERTIFICATE, directory / KEY):
        if path.exists():
            raise AuthorityRefused(f"{path} is there already, and nodes may trust it: name another directory")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise AuthorityRefused(f"{directory} cannot be made: {error.strerror}") from None
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    ends = now + datetime.timedelta(days=days)
    usage = _key_usage(signs_certificates=True)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(directory / KEY, _pem_of(key), _PRIVATE)
    _write(directory / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM), _PUBLIC)
    return ends


def issue(
    directory: Path, node: str, hosts: Sequence[str], days: int, now: datetime.datetime, out: Path | None = None
) -> Issued:
    """Write a node's new key and certificate to `out`, DIR/NODE.pem by default. Without hosts those of the certificate that
    is there count. Raises AuthorityRefused: then that one is unchanged.
    """
    if not is_node_name(node):
        raise AuthorityRefused(f"{node!r} is no name of a node: letters, digits, '.', '_' and '-', at most 64")
    path = out or directory / f"{node}.pem"
    if path.name in (CERTIFICATE, KEY):
        raise AuthorityRefused(f"{path} is the authority's own file: name another one")
    authority, key = _authority(directory)
    before = _issued_before(path, node, authority)
    if not hosts and before is None:
        raise AuthorityRefused(f"{path} is not there yet: name the node's host names and addresses by --host")
    wanted = tuple(dict.fromkeys(hosts)) or _hosts_of(before)
    wrong = [host for host in wanted if not is_host(host)]
    if wrong:
        raise AuthorityRefused(f"{wrong[0]!r} is neither a host name nor an address")
    if authority.not_valid_after_utc <= now:
        raise AuthorityRefused(
            f"the authority's own certificate {directory / CERTIFICATE} ended on {authority.not_valid_after_utc:%Y-%m-%d}: "
            "make another authority"
        )
    ends = min(now + datetime.timedelta(days=days), authority.not_valid_after_utc)
    node_key = ec.generate_private_key(ec.SECP256R1())
    made = _node_certificate(node, wanted, node_key, authority, key, now, ends)
    pem = _pem_of(node_key) + made.public_bytes(serialization.Encoding.PEM)
    _write(path, pem, _PRIVATE)
    return Issued(path, wanted, ends, before is not None)


def _node_certificate(
    node: str,
    hosts: Sequence[str],
    node_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    ends: datetime.datetime,
) -> x509.Certificate:
    names: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address(host)) if is_ip_address(host) else x509.DNSName(host) for host in hosts
    ]
    names.append(x509.UniformResourceIdentifier(f"{NODE_URI}{node}"))
    both_sides = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node)]))
        .issuer_name(authority.subject)
        .public_key(node_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - CLOCK_SKEW, authority.not_valid_before_utc))
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(both_sides, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(node_key.public_key()), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(key, hashes.SHA256())
    )


def _authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Raises AuthorityRefused."""
    certificate_path, key_path = directory / CERTIFICATE, directory / KEY
    for path in (certificate_path, key_path):
        if not path.is_file():
            raise AuthorityRefused(f"{path} does not exist: `bmq cluster ca init {directory}` makes an authority")
    if key_path.stat().st_mode & 0o077:
        raise AuthorityRefused(f"{key_path} may be read or written by others: chmod 0600 {key_path}")
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except OSError as error:
        raise AuthorityRefused(f"{error.filename} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        raise AuthorityRefused(f"{certificate_path} and {key_path} are not what `bmq cluster ca init` wrote") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise AuthorityRefused(f"{key_path} is not the key of {certificate_path}")
    return certificate, key


def _issued_before(path: Path, node: str, authority: x509.Certificate) -> x509.Certificate | None:
    """The node's certificate in the file; None: there is no file. Raises AuthorityRefused for any other file."""
    if not path.exists():
        return None
    refusal = AuthorityRefused(
        f"{path} is not a certificate of {node} by this authority, and stays: name another --out"
    )
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        raise refusal from None
    if f"{NODE_URI}{node}" not in names.get_values_for_type(x509.UniformResourceIdentifier):
        raise refusal
    return certificate


def _hosts_of(certificate: x509.Certificate | None) -> tuple[str, ...]:
    assert certificate is not None
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *map(str, addresses))


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    """The whole file or nothing, never readable by more than `mode` says. Raises AuthorityRefused."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as made:
            try:
                made.write(data)
                made.flush()
                os.fsync(made.fileno())
                os.fchmod(made.fileno(), mode)
                Path(made.name).replace(path)
            except OSError:
                Path(made.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise AuthorityRefused(f"{path} cannot be written: {error.strerror}") from None
