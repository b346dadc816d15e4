"""The state of one connection's login: which frame may come next, and what is answered. No I/O, no time of its own.

FIRST -> HANDSHAKE (after one good ApiVersions) -> TOKENS (SaslAuthenticate) or RAW (tokens alone, after SaslHandshake
v0) -> DONE. With a session that ends the client begins again by a SaslHandshake (KIP-368); other requests go on until
then. Every failure after SaslHandshake v1 is answered with SASL_AUTHENTICATION_FAILED, if it is final; after v0 there is
no form for an answer.
Sources: KIP-43, KIP-152, KIP-368, SaslServerAuthenticator of Apache Kafka (4.3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import RequestHeader, decode_request, encode_response, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from bmq.security.sasl.steps import Accepted, Awaited, Challenge, Deferred, Mechanism, Rejected, Step, Unavailable

REAUTHENTICATION_PAUSE_S: Final = 1.0
"""From the beginning of one re-authentication to that of the next one."""
ROUNDS_MAX: Final = 10
"""Messages of a client in one exchange; GSSAPI takes most, some four."""


@dataclass(frozen=True, slots=True)
class PassOn:
    """An ApiVersions request, to be answered as any other."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A frame for the client; the exchange goes on."""

    frame: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Work:
    """Blocking work for another thread; call `resume` with what it returns before the next frame."""

    work: Callable[[], Step] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that has to be awaited; call `resume` with its result before the next frame."""

    work: Callable[[], Awaitable[Step]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """`session_s`: how long it counts from now on; None: as long as the connection."""

    frame: bytes = field(repr=False)
    principal: str
    is_token: bool
    mechanism: str
    session_s: float | None


@dataclass(frozen=True, slots=True)
class Failed:
    """Send the frame, if there is one, and close. `is_wrong`: credentials, so the answer has to wait a moment."""

    frame: bytes | None = field(repr=False)
    reason: str
    is_wrong: bool = False


Outcome = PassOn | Answer | Work | Waiting | Authenticated | Failed


class _State(Enum):
    FIRST = 0
    HANDSHAKE = 1
    TOKENS = 2
    RAW = 3
    DONE = 4


class SaslAuthenticator:
    """`mechanisms`: what makes a new exchange, by name. `session_max_ms`: of each mechanism; 0: no limit. `is_out_of_date`:
    the mechanism refuses by users that may have changed without this process hearing of it.
    """

    def __init__(
        self,
        mechanisms: Mapping[str, Callable[[], Mechanism]],
        session_max_ms: Callable[[str], int],
        now_ms: Callable[[], int],
        elapsed_s: Callable[[], float],
        is_out_of_date: Callable[[str], bool] = lambda mechanism: False,
    ) -> None:
        self._mechanisms = mechanisms
        self._is_out_of_date = is_out_of_date
        self._session_max_ms = session_max_ms
        self._now_ms = now_ms
        self._elapsed_s = elapsed_s
        self._state = _State.FIRST
        self._mechanism: Mechanism | None = None
        self._name = ""
        self._header: RequestHeader | None = None  # of the SaslAuthenticate being answered
        self._principal = ""
        self._principal_mechanism = ""
        self._began_again_s: float | None = None
        self._rounds = 0

    @property
    def is_done(self) -> bool:
        return self._state is _State.DONE

    def receive(self, frame: bytearray) -> Outcome:
        """The client's next frame. Once the login is done: only SaslHandshakes."""
        if self._state is _State.RAW:
            self._header = None
            return self._take(bytes(frame))
        try:
            header = parse_request_header(frame)
            return self._request(header, frame)
        except (MalformedMessage, UnsupportedVersion) as error:
            return Failed(None, f"before its login: {error}")

    def resume(self, step: Step) -> Outcome:
        """Go on after the work of a Work."""
        return self._outcome_of(step)

    def _request(self, header: RequestHeader, frame: bytearray) -> Outcome:
        match header.api_key, self._state:
            case ApiKey.API_VERSIONS, _State.FIRST:
                api = APIS[ApiKey.API_VERSIONS]
                if api.version_min <= header.api_version <= api.version_max:
                    self._state = _State.HANDSHAKE
                return PassOn()
            case ApiKey.SASL_HANDSHAKE, _State.FIRST | _State.HANDSHAKE | _State.DONE:
                return self._handshake(header, decode_request(header, frame))
            case ApiKey.SASL_AUTHENTICATE, _State.TOKENS:
                request: SaslAuthenticateRequest = decode_request(header, frame)
                self._header = header
                return self._take(bytes(request.auth_bytes))
        return Failed(None, f"a request of API {header.api_key} that may not come before its login is done")

    def _handshake(self, header: RequestHeader, request: SaslHandshakeRequest) -> Outcome:
        def answer(code: ErrorCode = ErrorCode.NONE) -> bytes:
            response = SaslHandshakeResponse(error_code=code, mechanisms=list(self._mechanisms))
            return encode_response(header.api_key, header.api_version, header.correlation_id, response)

        if self._state is _State.DONE:
            now_s = self._elapsed_s()
            if self._began_again_s is not None and now_s - self._began_again_s < REAUTHENTICATION_PAUSE_S:
                return Answer(answer(ErrorCode.ILLEGAL_SASL_STATE))
            self._began_again_s = now_s
        name = request.mechanism
        if name not in self._mechanisms:
            return Failed(
                answer(ErrorCode.UNSUPPORTED_SASL_MECHANISM), f"it asks for the SASL mechanism {name[:100]!r}"
            )
        self._name, self._mechanism, self._rounds = name, self._mechanisms[name](), 0
        if self._principal and name != self._principal_mechanism:
            # As in Kafka this handshake succeeds, and the login by it does not.
            self._mechanism = _OtherMechanism(name, self._principal_mechanism)
        self._state = _State.RAW if header.api_version == 0 else _State.TOKENS
        return Answer(answer())

    def _take(self, token: bytes) -> Outcome:
        assert self._mechanism is not None
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            return self._outcome_of(Rejected(f"more than {ROUNDS_MAX} messages in one login"))
        return self._outcome_of(self._mechanism.step(token))

    def _outcome_of(self, step: Step) -> Outcome:
        match step:
            case Challenge(data):
                return Answer(self._answer(data))
            case Deferred(work):
                return Work(work)
            case Awaited(work):
                return Waiting(work)
            case Unavailable(reason):
                return Failed(None, f"its login by {self._name} cannot be checked now: {reason}")
            case Rejected(reason, _) if self._is_out_of_date(self._name):
                # 58 is final for clients; a close is not. The delay stays: it may be a guess.
                doubt = "no controller answers here, so users may have changed and it may try again"
                return Failed(None, f"its login by {self._name} failed: {reason}; {doubt}", is_wrong=True)
            case Rejected(reason, message):
                return self._failed(reason, message)
        return self._accepted(step)

    def _accepted(self, step: Accepted) -> Outcome:
        principal = f"User:{step.user}"
        if self._principal not in ("", principal):
            changed = (
                f"Cannot change principals during re-authentication from {_java(self._principal)}: {_java(principal)}"
            )
            return self._failed("it logs in again as another user", changed)
        now_ms = self._now_ms()
        left_ms = None if step.expires_at_ms is None else step.expires_at_ms - now_ms
        if left_ms is not None and left_ms <= 0:
            return self._failed("what it logs in with has expired", "")
        limits = [limit for limit in (left_ms, self._session_max_ms(self._name) or None) if limit is not None]
        session_ms = min(limits, default=0)
        self._principal, self._principal_mechanism = principal, self._name
        self._state, self._mechanism = _State.DONE, None
        return Authenticated(
            self._answer(step.data, session_ms),
            principal,
            step.is_token,
            self._name,
            session_ms / 1000 if limits else None,
        )

    def _answer(self, data: bytes, session_ms: int = 0) -> bytes:
        header = self._header
        if header is None:
            return data
        response = SaslAuthenticateResponse(auth_bytes=data, session_lifetime_ms=session_ms)
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def _failed(self, reason: str, message: str) -> Failed:
        header = self._header
        what = "re-authentication" if self._principal else "authentication"
        frame = None
        if header is not None:
            usual = f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._name}"
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message or usual
            )
            frame = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        return Failed(frame, f"its {what} by {self._name} failed: {reason}", is_wrong=True)


class _OtherMechanism:
    """Refuses a re-authentication by another mechanism than that of the connection."""

    def __init__(self, name: str, first: str) -> None:
        self._message = (
            f"SASL mechanism '{name}' requested by client is not supported for re-authentication of mechanism '{first}'"
        )

    def step(self, message: bytes) -> Step:
        return Rejected("it logs in again by another mechanism", self._message)


def _java(principal: str) -> str:
    """As Kafka writes it there: type and name with a dot."""
    return principal.replace(":", ".", 1)
