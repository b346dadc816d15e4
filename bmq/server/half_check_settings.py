"""Settings of checks of half messages by HTTP."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated

from pydantic import BeforeValidator

from bmq.dataclass import dataclass


def _listed(value: object) -> object:
    """The value as a list. An environment variable has it as `a,b` or `["a", "b"]`."""
    if not isinstance(value, str):
        return value
    with contextlib.suppress(ValueError):
        listed = json.loads(value)
        if isinstance(listed, list):
            return tuple(listed)
    return tuple(host for part in value.split(",") if (host := part.strip().strip('"')))


@dataclass(frozen=True, slots=True)
class HalfCheckSettings:
    """The table `[half_checks]`."""

    hosts: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Hosts that checks may be posted to, `HOST` or `HOST:PORT`; empty: none are posted."""
    secret_file: str = ""
    """File with the secret that signs checks, at least 16 bytes; without it none are posted."""
    timeout_s: float = 5.0
    """How long one request may take."""
    posts_max: int = 32
    """Requests of a process at the same time."""
    posts_per_url_max: int = 4
    """Those to one URL."""
