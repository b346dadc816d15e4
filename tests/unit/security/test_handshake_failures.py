"""Why a TLS handshake failed: one clause that says what to change."""

from __future__ import annotations

import pytest

from bmq.security.handshake_failures import handshake_failure

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("reason", "verify_message", "why"),
    [
        ("WRONG_VERSION_NUMBER", "", "it does not speak TLS, as this listener does"),
        ("HTTP_REQUEST", "", "it does not speak TLS, as this listener does"),
        ("CERTIFICATE_VERIFY_FAILED", "certificate has expired", "its certificate is refused: certificate has expired"),
        ("CERTIFICATE_VERIFY_FAILED", "", "its certificate is refused: it cannot be verified"),
        ("TLSV1_ALERT_UNKNOWN_CA", "", "it refuses this listener's certificate"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "", "it refuses this listener's certificate"),
        ("UNSUPPORTED_PROTOCOL", "", "it speaks only versions of TLS that ssl.enabled.protocols leaves out"),
        ("NO_SHARED_CIPHER", "", "it has no cipher of ssl.cipher.suites"),
        ("NEW_REASON_OF_OPENSSL", "", "its TLS handshake failed: new reason of openssl"),
        (None, "", "its TLS handshake failed: no reason given"),
    ],
)
def test_the_reason_in_words(reason: str | None, verify_message: str, why: str) -> None:
    assert handshake_failure(reason, verify_message) == why
