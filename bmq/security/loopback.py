"""Whether a host is this machine alone. Pure."""

from __future__ import annotations

import ipaddress


def is_loopback_host(host: str) -> bool:
    """Whether only this machine reaches the host, an address or a name. Of names `localhost` alone does."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
