"""Runs checks beside each other, each within its own limit: whatever hangs is a finding."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import httpx

from bmq.cli.doctor.finding import Finding, error
from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError


@dataclass(frozen=True, slots=True)
class Check:
    """`look` returns its findings, none for something that is covered elsewhere. It gets `limit_s`."""

    name: str
    limit_s: float
    look: Callable[[], Awaitable[Sequence[Finding]]]


async def run_checks(checks: Sequence[Check]) -> list[Finding]:
    """The findings of all checks, in the order of the checks. Takes as long as the longest limit at most."""
    found = await asyncio.gather(*(_bounded(check) for check in checks))
    return [finding for each in found for finding in each]


async def _bounded(check: Check) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(check.limit_s):
            return await check.look()
    except TimeoutError:
        return [
            error(
                check.name,
                f"the check did not end within {check.limit_s:g} s",
                "look for what hangs: a name server, a disk, a NameNode or a node; then run the command again",
            )
        ]
    except (BmqError, OSError, httpx.HTTPError, ValueError, OverflowError, TypeError, LookupError) as failure:
        text = str(failure) or type(failure).__name__
        return [error(check.name, f"the check failed: {text}", "repair what the sentence names; then run it again")]
