"""Groups as the REST API has them: of all kinds, share and streams groups too, which librdkafka does not list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bmq.cli.cluster_client import ClusterClient
from bmq.cli.cluster_output import quoted
from bmq.cli.kafka.group_lag import TopicLag, summed_lags
from bmq.cli.kafka.model import Group
from bmq.cli.paged_answers import all_pages

EXPLAINED_KINDS: Final = ("classic", "consumer", "share")
"""Kinds whose lag the REST API has: streams groups it lists alone."""
_PAGE: Final = 1_000


def groups_at(client: ClusterClient) -> Iterator[Group]:
    """All groups, in order. Raises ClusterFailed."""
    after = ""
    while after is not None:
        found = client.get("/v1/groups", limit=_PAGE, after=after)
        for one in found["groups"]:
            yield Group(one["group"], one["kind"], one["state"].lower(), is_simple=False)
        after = found["next_after"]


def lags_at(client: ClusterClient, group: str) -> list[TopicLag]:
    """Of one group, in the order of the topics: of a share group, the records that are not done. Raises ClusterFailed."""
    return summed_lags((one["topic"], one["lag"]) for one in explanation_at(client, group)["partitions"])


def explanation_at(client: ClusterClient, group: str, *, topic: str | None = None, limit: int | None = None) -> Any:
    """A GroupExplanationView with the partitions of all pages, `limit` at most."""
    return all_pages(client, f"/v1/groups/{quoted(group)}/explain", "partitions", limit=limit, topic=topic)
