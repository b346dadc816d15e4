"""Names that a shell completes: topics, groups and brokers of the cluster, as far as it answers at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from bmq.cli.kafka.model import ConfigKind
from bmq.cli.kafka.options import connected

if TYPE_CHECKING:
    from bmq.cli.kafka.client import KafkaClient

ANSWER_WAIT_S: Final = 1.0
_HARMLESS: Final = re.compile(r"[A-Za-z0-9._@/+=-]+", re.ASCII)
"""Anybody can name a group, and zsh evaluates what is offered: other names have to be typed."""


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, lambda client: client.topic_names())


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, lambda client: (each.name for each in client.groups()))


def complete_resources(ctx: typer.Context, incomplete: str) -> list[str]:
    """By the kind that stands before the name."""
    match ctx.params.get("kind"):
        case ConfigKind.TOPIC:
            return complete_topics(ctx, incomplete)
        case ConfigKind.GROUP:
            return complete_groups(ctx, incomplete)
        case ConfigKind.BROKER:
            return _names(ctx, incomplete, lambda client: map(str, client.brokers()))
    return []


def _names(ctx: typer.Context, incomplete: str, listed: Callable[[KafkaClient], Iterable[str]]) -> list[str]:
    # Whatever is wrong, a sentence in the middle of a line that is being typed helps nobody.
    with suppress(Exception):
        bootstrap, kafka = ctx.params["bootstrap"], ctx.params.get("kafka")
        client = connected(ctx, bootstrap, kafka, answer_wait_s=ANSWER_WAIT_S)
        return [name for name in listed(client) if name.startswith(incomplete) and _HARMLESS.fullmatch(name)]
    return []
