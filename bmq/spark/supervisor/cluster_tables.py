"""The tables that a cluster has, and what a supervisor says of them to it. Uses the REST API of any node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from bmq.rest_client.client import RestClient
from bmq.rest_client.login import LoginUnusable
from bmq.spark.supervisor.effects import Say, TableState, WantedTable
from bmq.table_definitions.progress import TABLES_MAX, JobState

ERROR_CHARACTERS_MAX: Final = 1_000
_PAGE: Final = 500
_STATES: Final[Mapping[TableState, JobState]] = {
    TableState.STARTING: JobState.STARTING,
    TableState.RUNNING: JobState.RUNNING,
    TableState.FAILED: JobState.FAILED,
    TableState.STOPPED: JobState.STOPPED,
}
"""A table that another job writes is that job's to report; a dropped one is nobody's."""


class ClusterSilent(Exception):
    """The cluster gave no usable answer; the message is one sentence."""


class ReportUnwanted(Exception):
    """The cluster has another table of this name, or none."""


@dataclass(frozen=True, slots=True)
class Listing:
    """`unreadable`: why the node cannot read a table's definition, by name."""

    tables: Mapping[str, WantedTable]
    unreadable: Mapping[str, str]


class ClusterTables:
    """For one thread."""

    def __init__(self, client: RestClient, prefix: str = "") -> None:
        self._client = client
        self._prefix = prefix

    def listing(self) -> Listing:
        """Tables whose names begin with the prefix. Raises ClusterSilent."""
        tables: dict[str, WantedTable] = {}
        unreadable: dict[str, str] = {}
        for line in self._lines():
            try:
                if line["definition_error"] is not None:
                    unreadable[line["name"]] = line["definition_error"]
                else:
                    tables[line["name"]] = WantedTable(
                        line["name"], line["table_id"], line["topic_id"], line["version"]
                    )
            except (KeyError, TypeError):
                raise ClusterSilent(
                    "the node's list of tables has no ids, as it is of an earlier release: upgrade the nodes first"
                ) from None
        return Listing(tables, unreadable)

    def report(self, said: Say) -> None:
        """Tell the cluster the table's state. Raises ClusterSilent, ReportUnwanted."""
        body = report_body(said)
        if body is None:
            return
        answer = self._request("PUT", f"/v1/tables/{said.table.name}/status", json=body)
        if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            raise ReportUnwanted
        if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY and body["state"] == JobState.STARTING:
            return  # the active controller is of an earlier release, which does not have that state
        if not answer.is_success:
            raise ClusterSilent(f"the cluster does not take the state of table {said.table.name}: {_sentence(answer)}")

    def _lines(self) -> Iterator[Any]:
        after: str | None = ""
        count = 0
        while after is not None and count <= TABLES_MAX:
            answer = self._request("GET", "/v1/tables", params={"prefix": self._prefix, "after": after, "limit": _PAGE})
            if not answer.is_success:
                raise ClusterSilent(f"the cluster does not list its tables: {_sentence(answer)}")
            try:
                page = answer.json()
                lines, after = list(page["tables"]), page["next_after"]
            except (ValueError, KeyError, TypeError):
                raise ClusterSilent(f"what answers at {answer.url} is no node of bmq") from None
            count += len(lines)
            yield from lines

    def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **more)
        except (httpx.HTTPError, LoginUnusable) as error:
            raise ClusterSilent(f"the cluster cannot be asked at {self._client.url}: {error}") from error


def report_body(said: Say) -> dict[str, Any] | None:
    """The body of `PUT /v1/tables/NAME/status`; None: the supervisor does not report this state.

    Without offsets it changes nothing of what the job reported but the state.
    """
    state = _STATES.get(said.state)
    if state is None:
        return None
    error = said.error
    if error is not None and said.again_in_s is not None:
        again = f"; it is started again {said.again_in_s:.0f} s later"
        error = error[: ERROR_CHARACTERS_MAX - len(again)] + again
    return {
        "table_id": said.table.table_id,
        "topic_id": said.table.topic_id,
        "state": state.value,
        "partitions": [],
        "error": None if error is None else error[:ERROR_CHARACTERS_MAX],
    }


def _sentence(answer: httpx.Response) -> str:
    """What the node said, or its status code."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = None
    return detail[:ERROR_CHARACTERS_MAX] if isinstance(detail, str) else f"it answered {answer.status_code}"
