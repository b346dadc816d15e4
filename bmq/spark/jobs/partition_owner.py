"""Asks the owner of a partition, over REST, for its compaction: the plan, the swap. Any node redirects to the owner."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from bmq.log.delegated_compaction import DelegatedPlan
from bmq.rest_client.client import NoUrl, RestClient, why_no_connection
from bmq.rest_client.login import LoginUnusable, RestLogin
from bmq.spark.jobs.outcome import BrokenOff, JobFailed

WAIT_S: Final = 60.0
TRIES_MAX: Final = 5
_PAUSE_S: Final = 1.0


class PartitionOwner:
    """`rest_url`: of any node. `login`: for all nodes. Every method raises JobFailed, BrokenOff."""

    def __init__(
        self, rest_url: str, login: RestLogin | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        try:
            self._client = RestClient(rest_url, login or RestLogin(), timeout=WAIT_S, transport=transport)
        except NoUrl as error:
            raise JobFailed(f"--rest cannot be used: {error}") from error
        except LoginUnusable as error:
            raise JobFailed(str(error)) from error
        self._url = self._client.url

    def close(self) -> None:
        self._client.close()

    def partitions(self, topic: str) -> list[int]:
        answer = self._ask("GET", f"/v1/topics/{topic}")
        return sorted(each["partition"] for each in answer["partitions"])

    def plan(
        self, topic: str, partition: int, job: str, time_limit_ms: int, *, is_dry_run: bool = False
    ) -> DelegatedPlan | None:
        """The plan; None: there is nothing to clean. The same job gets the same plan again until its time limit."""
        body = {"job": job, "time_limit_ms": time_limit_ms}
        path = f"{_path(topic, partition)}?dry_run={'true' if is_dry_run else 'false'}"
        plan = self._ask("POST", path, body)["plan"]
        try:
            return None if plan is None else DelegatedPlan.decode(json.dumps(plan).encode())
        except ValueError as error:
            raise JobFailed(
                f"the plan of {topic}-{partition} is not understood; the servers are newer: {error}"
            ) from error

    def swap(self, topic: str, partition: int, plan: DelegatedPlan) -> dict[str, int]:
        """Have the owner swap the files in. Waits as long as the owner needs to check them."""
        path = f"{_path(topic, partition)}/{plan.reservation}/swap"
        answer: dict[str, int] = self._ask("POST", path, {"leader_epoch": plan.leader_epoch}, is_patient=True)
        return answer

    def release(self, topic: str, partition: int, plan: DelegatedPlan) -> None:
        self._ask("DELETE", f"{_path(topic, partition)}/{plan.reservation}")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, is_patient: bool = False) -> Any:
        """Send a request. `is_patient`: repeat it whenever the answer takes too long. Each request is idempotent."""
        failures = 0
        while True:
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.ReadTimeout as error:
                if is_patient:
                    continue
                raise BrokenOff(f"{self._url} did not answer within {WAIT_S:g} s") from error
            except (LoginUnusable, httpx.TooManyRedirects) as error:
                raise JobFailed(str(error)) from error
            except httpx.TransportError as error:
                if (why := why_no_connection(error)) is not None:
                    raise JobFailed(f"{self._url} cannot be asked: {why}") from error
                failures += 1
                if failures == TRIES_MAX:
                    raise BrokenOff(
                        f"no node answers at {self._url} ({error}); name a running node with --rest or BMQ_REST_URL"
                    ) from error
                time.sleep(_PAUSE_S)
                continue
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and failures + 1 < TRIES_MAX:
                failures += 1
                time.sleep(_PAUSE_S)
                continue
            return _document(answer)


def _path(topic: str, partition: int) -> str:
    return f"/v1/topics/{topic}/partitions/{partition}/compaction"


def _document(answer: httpx.Response) -> Any:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if answer.is_success and document is not None:
        return document
    if not isinstance(document, dict) or "detail" not in document:
        raise JobFailed(f"what answers at {answer.url} with status {answer.status_code} is no node of bmq")
    # What the present state does not allow may be allowed by the next one: after a takeover there is another plan.
    passes = answer.status_code == httpx.codes.CONFLICT or answer.is_server_error
    raise (BrokenOff if passes else JobFailed)(str(document["detail"]))
