"""Which quota holds for a client, and who shares its bucket: the first of eight levels that has one, never two.

Source: ClientQuotaManager.DefaultQuotaCallback (Kafka 4.3).
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from bmq.security.quotas.entities import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER, Quotas

_IS_DEFAULT: Final = None


class Sharers(NamedTuple):
    """The clients that share a bucket. Empty: every user, or every client id, that comes under the quota."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """A quota in force for a client."""

    value: float
    sharers: Sharers


def limit_of(quotas: Quotas, key: str, user: str, client_id: str) -> Limit | None:
    """The quota in force for a user's client; None: it is not limited."""
    both, of_user, of_client = Sharers(user, client_id), Sharers(user, ""), Sharers("", client_id)
    levels: tuple[tuple[tuple[tuple[str, str | None], ...], Sharers], ...] = (
        (((CLIENT_ID, client_id), (USER, user)), both),
        (((CLIENT_ID, _IS_DEFAULT), (USER, user)), both),
        (((USER, user),), of_user),
        (((CLIENT_ID, client_id), (USER, _IS_DEFAULT)), both),
        (((CLIENT_ID, _IS_DEFAULT), (USER, _IS_DEFAULT)), both),
        (((USER, _IS_DEFAULT),), of_user),
        (((CLIENT_ID, client_id),), of_client),
        (((CLIENT_ID, _IS_DEFAULT),), of_client),
    )
    for entity, sharers in levels:
        value = quotas.get(entity, {}).get(key)
        if value is not None:
            return Limit(value, sharers)
    return None


def connection_rate_of(quotas: Quotas, host: str) -> float | None:
    """New connections a second that an address may make; None: it is not limited."""
    for name in (canonical_address(host), _IS_DEFAULT):
        value = quotas.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return value
    return None


def canonical_address(host: str) -> str | None:
    """An address in the one form that is compared, an IPv4-mapped one as IPv4; None: the text is none."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
