"""Messages by number: the first byte of an input says which API, the second which version, the rest is the body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from bmq.protocol import codec
from bmq.protocol.apis import ALL_APIS, Api, ApiKey
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.turns import at_once
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import changed_message, random_message

HEAD_BYTES: Final = 2
_SEEDS_PER_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class Kind:
    """`kind`: "request" or "response"."""

    kind: str
    api_key: ApiKey
    version: int


class MessageTable:
    """`also`: further checks of a body that the codec took (its message) or refused (None)."""

    def __init__(
        self,
        kinds: Sequence[tuple[str, ApiKey]],
        also: Callable[[Kind, bytes, Any], None] = lambda kind, body, message: None,
    ) -> None:
        self._kinds = kinds
        self._also = also

    def kind_of(self, data: bytes) -> Kind:
        """Of an input of HEAD_BYTES or more."""
        kind, api_key = self._kinds[data[0] % len(self._kinds)]
        api = ALL_APIS[api_key]
        return Kind(kind, api_key, api.version_min + data[1] % (api.version_max - api.version_min + 1))

    def check(self, data: bytes) -> bool:
        """Read at once and in turns alike, and written again it is read as the same."""
        if len(data) < HEAD_BYTES:
            return False
        kind, body = self.kind_of(data), data[HEAD_BYTES:]
        message = _read(kind, body)
        assert repr(message) == repr(_read_in_turns(kind, body)), "read in turns it is another message"
        self._also(kind, body, message)
        if message is None:
            return False
        again = codec.encode(kind.kind, kind.api_key, kind.version, message)
        # By their text, because a NaN is not equal to itself.
        assert repr(codec.decode(kind.kind, kind.api_key, kind.version, again)) == repr(message), "it is not kept"
        return True

    def seeds(self) -> Iterator[bytes]:
        dice = Random(1)
        for number, (_, api_key) in enumerate(self._kinds):
            for offset in range(_versions(ALL_APIS[api_key])):
                for _ in range(_SEEDS_PER_VERSION):
                    yield self._fresh(bytes((number, offset)), dice)

    def mutate(self, data: bytes, dice: Random) -> bytes:
        """A field of the message drawn anew, the same message in another version, or another message."""
        head = data[:HEAD_BYTES]
        if len(head) < HEAD_BYTES or not dice.randrange(8):
            return self._fresh(dice.randbytes(HEAD_BYTES), dice)
        kind = self.kind_of(head)
        message = _read(kind, data[HEAD_BYTES:])
        if message is None:
            return changed(self._fresh(head, dice), dice)
        if not dice.randrange(6):
            head = bytes((head[0], dice.randrange(256)))
            kind = self.kind_of(head)
        entity = codec.message_format(kind.kind, kind.api_key).entity(kind.version)
        body = codec.encode(kind.kind, kind.api_key, kind.version, changed_message(entity, message, dice))
        return changed(head + body, dice) if dice.randrange(2) else head + body

    def _fresh(self, head: bytes, dice: Random) -> bytes:
        kind = self.kind_of(head)
        entity = codec.message_format(kind.kind, kind.api_key).entity(kind.version)
        return head + codec.encode(kind.kind, kind.api_key, kind.version, random_message(entity, dice))


def both_kinds(api_keys: Iterable[ApiKey]) -> list[tuple[str, ApiKey]]:
    return [(kind, api_key) for api_key in api_keys for kind in ("request", "response")]


def _versions(api: Api) -> int:
    return api.version_max - api.version_min + 1


def _read(kind: Kind, body: bytes) -> Any:
    """None: it is refused."""
    try:
        return codec.decode(kind.kind, kind.api_key, kind.version, body)
    except MalformedMessage:
        return None


def _read_in_turns(kind: Kind, body: bytes) -> Any:
    try:
        if kind.kind == "request":
            header = codec.RequestHeader(kind.api_key, kind.version, 1, None, 0)
            return at_once(codec.decode_request_in_turns(header, body))
        head = codec.encode_response_header(kind.api_key, kind.version, 1)
        return at_once(codec.decode_response_in_turns(kind.api_key, kind.version, head + body))
    except MalformedMessage:
        return None
