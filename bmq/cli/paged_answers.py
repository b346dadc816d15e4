"""All pages of a REST answer as one."""

from __future__ import annotations

from typing import Any, Final

from bmq.cli.cluster_client import ClusterClient

PAGE_ROWS: Final = 1_000


def all_pages(
    client: ClusterClient, path: str, rows: str, *, limit: int | None = None, page_rows: int = PAGE_ROWS, **query: Any
) -> Any:
    """The first page, with the `rows` of all that follow by `next_skip`, `limit` at most. Raises ClusterFailed.

    `page_rows`: as many as one page may have.
    """

    def page(skip: int | None, count: int) -> Any:
        return client.get(path, skip=skip, limit=page_rows if limit is None else min(limit - count, page_rows), **query)

    found = page(None, 0)
    while found["next_skip"] is not None and (limit is None or len(found[rows]) < limit):
        more = page(found["next_skip"], len(found[rows]))
        found[rows] += more[rows]
        found["next_skip"] = more["next_skip"]
    return found
