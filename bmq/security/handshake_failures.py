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
