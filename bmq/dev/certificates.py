"""An authority and one certificate for the nodes of a development cluster, which are all on this machine."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Final

from bmq.dev.ports import HOST
from bmq.extras import install_command
from bmq.protocol.errors import BmqError

VALID_DAYS: Final = 3_650
"""A development cluster must not end one day because of its certificate."""
_EARLY: Final = timedelta(minutes=5)


class NoCertificates(BmqError):
    """The package that makes certificates is not installed."""


def new_certificates() -> tuple[str, str]:
    """PEM: the authority's certificate; and a node's private key with its certificate, for localhost and its address.

    The authority's key is thrown away, so that it never vouches for anything else. Raises NoCertificates.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError:
        raise NoCertificates(f"a secured cluster needs another package: {install_command('ca')}") from None

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

    begin = datetime.now(UTC) - _EARLY
    end = begin + timedelta(days=VALID_DAYS)
    authority_key, node_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = named("bmq development authority")
    authority = (
        x509.CertificateBuilder(authority_name, authority_name, authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    node = (
        x509.CertificateBuilder(authority_name, named("bmq development node"), node_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = node_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem).decode(), key.decode() + node.public_bytes(pem).decode()
