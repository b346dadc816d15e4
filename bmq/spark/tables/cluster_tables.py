"""A table as the cluster keeps it: its definition and the job's progress reports. Uses the REST API of any node."""

from __future__ import annotations

import base64
import json
import logging
import threading
import uuid
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from bmq.rest_client.client import NoUrl, RestClient
from bmq.rest_client.login import LoginUnusable, RestLogin
from bmq.spark.tables.errors import TableJobError, TableMismatch
from bmq.spark.tables.progress import TableProgress
from bmq.table_definitions.definition import TableDefinition

_LOG: Final = logging.getLogger(__name__)
_TIMEOUT_S: Final = 10.0
_ERROR_CHARACTERS_MAX: Final = 1_000


def report(progress: TableProgress, table_id: str) -> dict[str, Any]:
    """The body of `PUT /v1/tables/NAME/status`."""
    partitions = sorted({*progress.next_offsets, *progress.end_offsets})
    return {
        "table_id": table_id,
        "topic_id": str(uuid_of(progress.topic_id)),
        "partitions": [
            {"partition": p, "offset": progress.next_offsets.get(p, 0), "end_offset": progress.end_offsets.get(p)}
            for p in partitions
        ],
        "committed_at": datetime.fromtimestamp(progress.at_ms / 1_000, UTC).isoformat(),
        "snapshot_id": progress.snapshot_id,
        "rows": progress.table_rows,
        "dead_letter_rows": progress.dead_letter_rows,
        "files": progress.table_files,
        "bytes": progress.table_bytes,
    }


def uuid_of(topic_id: str) -> uuid.UUID:
    """Kafka's clients write a UUID in Base64 for URLs, without padding."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))


class ClusterTable:
    """`definition` and `report` fit `run_table`: its second argument, and `on_progress`.

    `beat` may be called from another thread.
    """

    def __init__(
        self,
        rest_url: str,
        name: str,
        login: RestLogin | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`login`: for all nodes. Raises TableMismatch: the URL or the login cannot be used."""
        self._name = name
        self._table_id = self._topic_id = ""
        self._newest: dict[str, Any] | None = None
        self._in_order = threading.Lock()
        # Only the active controller accepts reports; other nodes redirect to it.
        try:
            self._client = RestClient(rest_url, login or RestLogin(), timeout=_TIMEOUT_S, transport=transport)
        except NoUrl as error:
            raise TableMismatch(f"the address of REST is no address of a node: {error}") from None
        except LoginUnusable as error:
            raise TableMismatch(str(error)) from None

    def definition(self) -> TableDefinition:
        """The present definition. Raises TableMismatch: no such table, or another one than before; TableJobError: no
        answer; InvalidDefinition.
        """
        try:
            answer = self._client.request("GET", f"/v1/tables/{self._name}")
        except (httpx.HTTPError, LoginUnusable) as error:
            raise TableJobError(f"table {self._name} cannot be asked for: {error}") from error
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise TableMismatch(f"the cluster has no table {self._name}")
        if not answer.is_success:
            raise TableJobError(f"table {self._name} cannot be asked for: {_sentence(answer)}")
        try:
            form = answer.json()
            table_id, definition = form["table_id"], form["definition"]
        except (ValueError, KeyError, TypeError):
            raise TableJobError(
                f"table {self._name} cannot be asked for: what answers at {answer.url} is no node of bmq"
            ) from None
        if self._table_id not in ("", table_id):
            raise TableMismatch(
                f"table {self._name} was dropped and made again since this job began; start the job again for the new one"
            )
        self._table_id, self._topic_id = table_id, form.get("topic_id", "")
        return TableDefinition.from_json(json.dumps(definition))

    def report(self, progress: TableProgress) -> None:
        """Report progress; a missing answer is only logged. Raises TableMismatch: the table has been replaced."""
        with self._in_order:
            self._newest = report(progress, self._table_id)
            self._send(self._newest)

    def beat(self) -> None:
        """Report that the job runs: its last report again, or one without offsets. Raises nothing."""
        self._send_report({})

    def ended(self, error: str | None) -> None:
        """Report that the job was stopped, or why it failed. Raises nothing."""
        state = "stopped" if error is None else "failed"
        self._send_report({"state": state, "error": None if error is None else error[:_ERROR_CHARACTERS_MAX]})

    def _send_report(self, state: dict[str, Any]) -> None:
        if not self._topic_id:
            return  # the cluster has not told which table this is
        try:
            with self._in_order:
                newest = self._newest or {"table_id": self._table_id, "topic_id": self._topic_id, "partitions": []}
                self._send({**newest, **state})
        except TableMismatch as error:
            _LOG.warning("%s", error)

    def _send(self, body: dict[str, Any]) -> None:
        try:
            answer = self._client.request("PUT", f"/v1/tables/{self._name}/status", json=body)
        except (httpx.HTTPError, LoginUnusable) as error:
            _LOG.warning("progress of table %s was not reported: %s", self._name, error)
            return
        if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            raise TableMismatch(f"table {self._name}: {_sentence(answer)}")
        if not answer.is_success:
            _LOG.warning("progress of table %s was not reported: %s", self._name, _sentence(answer))


def _sentence(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
