"""Why a TLS handshake failed, in words that say what to change. Decisions only."""

from __future__ import annotations

from typing import Final

_NO_TLS: Final = frozenset(
    (
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "UNKNOWN_PROTOCOL",
        "PACKET_LENGTH_TOO_LONG",
        "RECORD_LAYER_FAILURE",
        "UNEXPECTED_MESSAGE",
        "BAD_RECORD_TYPE",
    )
)
_IS_NOT_TRUSTED: Final = frozenset(
    (
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    )
)
_REFUSED: Final = _IS_NOT_TRUSTED | {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
    "TLSV1_ALERT_ACCESS_DENIED",
}
_OTHERS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, and ssl.client.auth requires one",
    "UNSUPPORTED_PROTOCOL": "it speaks only versions of TLS that ssl.enabled.protocols leaves out",
    "VERSION_TOO_LOW": "it speaks only versions of TLS that ssl.enabled.protocols leaves out",
    "NO_SHARED_CIPHER": "it has no cipher of ssl.cipher.suites",
}


def handshake_failure(reason: str | None, verify_message: str = "") -> str:
    """`reason`: OpenSSL's, as ssl.SSLError.reason. `verify_message`: what is wrong with the client's certificate."""
    if reason in _NO_TLS:
        return "it does not speak TLS, as this listener does"
    if reason == "CERTIFICATE_VERIFY_FAILED":
        return f"its certificate is refused: {verify_message or 'it cannot be verified'}"
    if reason in _IS_NOT_TRUSTED:
        return "it refuses this listener's certificate"
    known = _OTHERS.get(reason or "")
    return known or f"its TLS handshake failed: {(reason or 'no reason given').replace('_', ' ').lower()}"


def node_accept_failure(reason: str | None, verify_message: str = "") -> str:
    """The same for a peer at the listener between nodes."""
    if reason in _NO_TLS:
        return "it does not speak TLS, as nodes do here: set internode_security there, or mode = mixed here meanwhile"
    if reason == "CERTIFICATE_VERIFY_FAILED":
        return f"its certificate is refused: {_refused_node(verify_message)}"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it showed no certificate, and only nodes may connect here"
    if reason in _IS_NOT_TRUSTED:
        return (
            f"it refuses this node's certificate ({_words(reason)}): see internode_security.ca_file there, and its log"
        )
    return f"its TLS handshake failed: {_words(reason)}"


def node_dial_failure(reason: str | None, verify_message: str = "") -> str:
    """The same for a node that this one connects to."""
    if reason in _NO_TLS:
        return "it does not speak TLS: set internode_security there, or mode = mixed here meanwhile"
    if reason == "CERTIFICATE_VERIFY_FAILED":
        return f"its certificate is refused: {_refused_node(verify_message)}"
    if reason in _REFUSED:
        return f"it refuses this node's certificate ({_words(reason)}): its log says why"
    return f"the TLS handshake failed: {_words(reason)}"


def _refused_node(verify_message: str) -> str:
    """OpenSSL's reason, and what to do about it."""
    why = verify_message.rstrip(".") or "it cannot be verified"
    if "mismatch" in why:
        remedy = "issue it for the address that others connect to (`--host`)"
    elif "expired" in why or "not yet valid" in why:
        remedy = "issue it anew, and compare the clocks"
    elif "purpose" in why or "unsuitable" in why:
        remedy = "it is no node's: issue one by `bmq cluster ca issue`"
    else:
        remedy = "it has to be issued by an authority of internode_security.ca_file"
    return f"{why}; {remedy}"


def _words(reason: str | None) -> str:
    return (reason or "no reason given").replace("_", " ").lower()
