"""What an Envelope carries: the principal, the address, and the client's request in it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from bmq.internode_client.envelope import FORWARDED, encode_host, encode_principal, parse_host, parse_principal
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import (
    decode,
    decode_request_in_turns,
    encode,
    encode_request,
    message_format,
    parse_request_header,
)
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.messages.envelope_request import EnvelopeRequest
from bmq.protocol.turns import at_once
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import random_message
from tests.fuzz.target import Target


def check(data: bytes) -> bool:
    """An Envelope as its handler takes it apart."""
    try:
        envelope: EnvelopeRequest = decode("request", ApiKey.ENVELOPE, 0, data)
        header = parse_request_header(envelope.request_data)
        at_once(decode_request_in_turns(header, envelope.request_data))
        host = parse_host(envelope.client_host_address)
        principal, is_token = parse_principal(envelope.request_principal or b"")
    except (MalformedMessage, UnsupportedVersion):
        return False
    assert parse_host(encode_host(host)) == host, "the address is not kept"
    assert parse_principal(encode_principal(principal, is_token=is_token)) == (principal, is_token), (
        "the principal is not kept"
    )
    return True


def seeds() -> Iterator[bytes]:
    dice = Random(4)
    for api_key in sorted(FORWARDED):
        yield _fresh(api_key, dice)


def mutate(data: bytes, dice: Random) -> bytes:
    try:
        envelope: EnvelopeRequest = decode("request", ApiKey.ENVELOPE, 0, data)
    except MalformedMessage:
        return changed(_fresh(dice.choice(sorted(FORWARDED)), dice), dice)
    match dice.randrange(3):
        case 0:
            envelope.request_data = changed(envelope.request_data, dice)
        case 1:
            envelope.request_principal = changed(envelope.request_principal or b"", dice)
        case _:
            envelope.client_host_address = changed(envelope.client_host_address, dice)
    return encode("request", ApiKey.ENVELOPE, 0, envelope)


def _fresh(api_key: ApiKey, dice: Random) -> bytes:
    version = dice.randint(APIS[api_key].version_min, APIS[api_key].version_max)
    request = random_message(message_format("request", api_key).entity(version), dice)
    envelope = EnvelopeRequest(
        request_data=encode_request(api_key, version, dice.getrandbits(31), dice.choice((None, "client")), request),
        request_principal=encode_principal(dice.choice(("User:ANONYMOUS", "User:a:b", "User:", ":", "Usér:ü"))),
        client_host_address=dice.choice((b"", bytes(4), bytes(15) + b"\1", b"\x7f\0\0\1")),
    )
    return encode("request", ApiKey.ENVELOPE, 0, envelope)


TARGET: Final = Target("envelope", seeds, check, ("bmq.protocol", "bmq.internode_client.envelope"), mutate)
