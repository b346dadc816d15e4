"""TLS of one listener: the context of its certificate and trust, from PEM files or values (KIP-651)."""

from __future__ import annotations

import os
import ssl
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError
from bmq.proxy.listener_socket import Subject
from bmq.security.certificate_changes import ALLOW_DN_CHANGES, ALLOW_SAN_CHANGES, CertificateNames
from bmq.security.distinguished_names import PrincipalRules, distinguished_name
from bmq.security.listeners import config_of
from bmq.security.mapping_rules import WrongRules
from bmq.server.tls_self_check import certificate_fault, shown_certificate

CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM: Final = "PEM"


class WrongTls(BmqError):
    """A listener's certificate, key or trust is unusable; the message is one sentence and contains no secret."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a listener's context. `key`, `chain`, `trusted`: PEM texts in place of files.

    `allows_dn_changes`, `allows_san_changes`: what may differ in a certificate that replaces the one in force.
    """

    listener: str
    keystore: Path | None = None
    truststore: Path | None = None
    key: str = field(default="", repr=False)
    chain: str = ""
    trusted: str = ""
    key_password: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    versions: tuple[str, ...] = tuple(VERSIONS)
    ciphers: str = ""
    rules: PrincipalRules = field(default_factory=PrincipalRules)
    allows_dn_changes: bool = False
    allows_san_changes: bool = False

    @property
    def changed_ns(self) -> tuple[int, ...]:
        """Modification times of the files. When one changes, the context is made again."""
        files = [path for path in (self.keystore, self.truststore) if path is not None]
        return tuple(path.stat().st_mtime_ns if path.exists() else -1 for path in files)


def tls_files(configs: Mapping[str, str], listener: str, *, has_own_names: bool) -> TlsFiles:
    """The files, from settings under Kafka's names. Raises WrongTls.

    `has_own_names`: clients log in by SASL, so names in their certificates do not count. Then only the listener's own config
    asks for client certificates (KIP-684).
    """

    def of(name: str) -> str:
        return (config_of(configs, listener, name) or "").strip()

    def allowed(name: str) -> bool:
        text = of(name).lower() or "false"
        if text not in ("true", "false"):
            raise WrongTls(f"listener {listener}: {name} is {text!r}, and may be true or false")
        return text == "true"

    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        if of(name) not in ("", _PEM):
            raise WrongTls(f"listener {listener}: {name} is {of(name)}, and only PEM is read: convert the store")
    for name in ("ssl.keystore.password", "ssl.truststore.password"):
        if of(name):
            raise WrongTls(f"listener {listener}: {name} is set, and PEM files have no password; see ssl.key.password")
    auth_name = f"listener.name.{listener.lower()}.ssl.client.auth"
    auth = (configs.get(auth_name, "none") if has_own_names else of("ssl.client.auth")) or "none"
    if auth not in CLIENT_AUTH:
        raise WrongTls(f"listener {listener}: ssl.client.auth is {auth!r}, and may be {', '.join(CLIENT_AUTH)}")
    versions = tuple(part.strip() for part in of("ssl.enabled.protocols").split(",") if part.strip()) or tuple(VERSIONS)
    unknown = [one for one in versions if one not in VERSIONS]
    if unknown:
        raise WrongTls(
            f"listener {listener}: ssl.enabled.protocols has {unknown[0]!r}, and may have {', '.join(VERSIONS)}"
        )
    keystore, key, chain = of("ssl.keystore.location"), of("ssl.keystore.key"), of("ssl.keystore.certificate.chain")
    if bool(key) != bool(chain):
        raise WrongTls(f"listener {listener}: ssl.keystore.key and ssl.keystore.certificate.chain belong together")
    if not keystore and not key:
        raise WrongTls(
            f"listener {listener} speaks TLS and has no certificate: set ssl.keystore.location to a PEM file"
        )
    if keystore and key:
        raise WrongTls(f"listener {listener}: ssl.keystore.location and ssl.keystore.key are both set")
    truststore, trusted = of("ssl.truststore.location"), of("ssl.truststore.certificates")
    if auth != "none" and not truststore and not trusted:
        raise WrongTls(f"listener {listener} asks for client certificates and trusts none: set ssl.truststore.location")
    try:
        rules = PrincipalRules(of("ssl.principal.mapping.rules"))
    except WrongRules as error:
        raise WrongTls(f"listener {listener}: ssl.principal.mapping.rules: {error}") from None
    return TlsFiles(
        listener,
        Path(keystore) if keystore else None,
        Path(truststore) if truststore else None,
        key,
        chain,
        trusted,
        of("ssl.key.password") or None,
        auth,
        versions,
        of("ssl.cipher.suites"),
        rules,
        allowed(ALLOW_DN_CHANGES),
        allowed(ALLOW_SAN_CHANGES),
    )


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Read the files and make a context. Raises WrongTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [VERSIONS[one] for one in files.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.verify_mode = CLIENT_AUTH[files.client_auth]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0  # a resumed session would go past a check of its certificate
    if files.ciphers:
        _set_ciphers(context, files)
    try:
        _load_certificate(context, files)
        if files.truststore is not None:
            context.load_verify_locations(cafile=str(_existing(files, files.truststore)))
        elif files.trusted:
            context.load_verify_locations(cadata=files.trusted)
    except ssl.SSLError as error:
        raise WrongTls(_sentence(files, error)) from None
    except OSError as error:
        raise WrongTls(f"listener {files.listener}: {error.filename} cannot be read: {error.strerror}") from None
    return context


def principal_by(rules: PrincipalRules) -> Callable[[Subject], str]:
    """A function that returns the principal TYPE:NAME of a certificate's subject. The function raises NoRule."""
    return lambda subject: f"User:{rules.apply(distinguished_name(subject))}"


def fault_of(files: TlsFiles, context: ssl.SSLContext) -> str:
    """Why clients will refuse the certificate, as one sentence; empty if they will not. Raises OSError."""
    fault = certificate_fault(context, _pem(files))
    return fault and f"clients will refuse the certificate of {_where(files)}: {fault}"


def names_of(files: TlsFiles, context: ssl.SSLContext) -> CertificateNames | None:
    """Names in the certificate of a context that is not in use yet; None if no client could read it. Raises OSError."""
    shown = shown_certificate(context, _pem(files))
    return CertificateNames.of(shown) if shown else None


def end_of(files: TlsFiles, context: ssl.SSLContext) -> float | None:
    """When the certificate of a context that is not in use ends, in seconds since 1970; None if no client could read it.

    Raises OSError.
    """
    shown = shown_certificate(context, _pem(files))
    return ssl.cert_time_to_seconds(shown["notAfter"]) if "notAfter" in shown else None


def _where(files: TlsFiles) -> str:
    return "ssl.keystore.certificate.chain" if files.keystore is None else str(files.keystore)


def _pem(files: TlsFiles) -> str:
    return f"{files.key}\n{files.chain}" if files.keystore is None else files.keystore.read_text(errors="replace")


def _set_ciphers(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.set_ciphers(":".join(part.strip() for part in files.ciphers.split(",")))
    except ssl.SSLError:
        raise WrongTls(f"listener {files.listener}: ssl.cipher.suites has no cipher that OpenSSL knows") from None


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    def password() -> str:
        return files.key_password or ""  # else OpenSSL asks on the terminal

    if files.keystore is not None:
        _require_private(files, _existing(files, files.keystore))
        context.load_cert_chain(str(files.keystore), password=password)
        return
    # OpenSSL reads keys from files alone: this one is nobody else's, and gone at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as made:
        made.write(f"{files.key}\n{files.chain}\n")
        made.flush()
        context.load_cert_chain(made.name, password=password)


def _existing(files: TlsFiles, path: Path) -> Path:
    if not path.is_file():
        raise WrongTls(f"listener {files.listener}: {path} does not exist or is not a file")
    return path


def _require_private(files: TlsFiles, path: Path) -> None:
    mode = path.stat().st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP) and os.name == "posix":
        raise WrongTls(
            f"listener {files.listener}: {path} holds a private key and may be read or written by others: chmod 0600"
        )


def _sentence(files: TlsFiles, error: ssl.SSLError) -> str:
    """Why the PEM is unusable. OpenSSL's messages rarely say what to change, so the PEM itself is examined."""
    where: object = files.keystore or "the PEM text"
    pem = _pem(files)
    reason = f"{error.reason or ''} {error}".replace("_", " ").lower()
    if "PRIVATE KEY-----" not in pem or "BEGIN CERTIFICATE-----" not in pem:
        why = "it lacks a private key in PKCS#8 or a certificate in PEM"
    elif "key values mismatch" in reason:
        why = "the private key does not belong to the first certificate"
    elif "ENCRYPTED" in pem:
        why = "the private key is encrypted: set ssl.key.password, or check it"
    else:
        where = files.truststore or where
        why = "OpenSSL cannot read it"
    return f"listener {files.listener}: {where} cannot be used: {why}"
