"""Settings of checks of half messages by HTTP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HalfCheckSettings:
    """The table `[half_checks]`."""

    hosts: tuple[str, ...] = ()
    """Hosts that checks may be posted to, `HOST` or `HOST:PORT`; empty: none are posted."""
    secret_file: str = ""
    """File with the secret that signs checks, at least 16 bytes; without it none are posted."""
    timeout_s: float = 5.0
    """How long one request may take."""
    posts_max: int = 32
    """Requests of a process at the same time."""
    posts_per_url_max: int = 4
    """Those to one URL."""
