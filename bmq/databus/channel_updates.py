"""Channels from the cluster, as they change: a long poll by REST in a thread, and a copy on disk for a start without it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import structlog

from bmq.channels.channel import InvalidChannel
from bmq.channels.channel_set import SET_BYTES_MAX, ChannelSet, channel_set_to_json, parse_channel_set
from bmq.databus.spool.files import read_small, replace_file
from bmq.dataclass import dataclass
from bmq.rest_client.client import RestClient
from bmq.rest_client.login import LoginUnusable, RestLogin

_log = structlog.get_logger("bmq.databus")

FILE: Final = "channels.json"
WAIT_MS: Final = 20_000
PATH: Final = "/v1/channels/changes"
RETRY_S_MAX: Final = 2.0
POLL_PAUSE_S: Final = 0.02
"""Bounds the rate of polls whatever the answers are."""
_CONNECT_S: Final = 3.0
_FILE_BYTES_MAX: Final = 2 * SET_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ClusterChannels:
    """All channels, and the cluster whose they are."""

    cluster_id: str = ""
    channels: ChannelSet = field(default_factory=ChannelSet)

    @classmethod
    def of_json(cls, found: Any) -> ClusterChannels:
        """Raises ValueError, InvalidChannel."""
        if not isinstance(found, dict) or not isinstance(cluster_id := found.get("cluster_id"), str):
            raise ValueError("an object with a cluster_id is wanted")
        return cls(cluster_id, parse_channel_set(found))

    def is_behind(self, other: ClusterChannels) -> bool:
        """Whether it is an older state of the same cluster: its node has not read the last changes yet."""
        return self.cluster_id == other.cluster_id and self.channels.version < other.channels.version


class KeptChannels:
    """The last known channels, in the spool's directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def load(self) -> ClusterChannels:
        """Without a usable file: no channels, version 0, and a line in the log."""
        try:
            content = read_small(self._path, _FILE_BYTES_MAX)
            return ClusterChannels() if content is None else ClusterChannels.of_json(json.loads(content))
        except (OSError, ValueError, InvalidChannel) as error:
            _log.warning("databus_channels_unusable", file=str(self._path), reason=_reason(error))
            return ClusterChannels()

    def save(self, known: ClusterChannels) -> None:
        content = {"cluster_id": known.cluster_id, **channel_set_to_json(known.channels)}
        try:
            replace_file(self._path, json.dumps(content).encode(), is_synced=True)
        except OSError as error:
            _log.warning("databus_channels_not_kept", file=str(self._path), reason=_reason(error))


class ChannelUpdates:
    """`on_change` gets each new set in the thread, and returns once it is in use. `trouble`: why there are no news."""

    def __init__(
        self,
        urls: Sequence[str],
        login: RestLogin,
        agent_id: str,
        known: ClusterChannels,
        on_change: Callable[[ClusterChannels], None],
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Raises LoginUnusable. `known`: the channels that are in use."""
        self.trouble = "not asked yet"
        self.known = known
        self._agent_id, self._on_change = agent_id, on_change
        timeout = httpx.Timeout(_CONNECT_S, read=WAIT_MS / 1_000 + 10)
        self._clients = [RestClient(url, login, timeout=timeout, transport=transport) for url in urls]
        self._stopping = threading.Event()
        self._dice = Random(agent_id)
        self._thread = threading.Thread(target=self._run, name="databus-channels", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A poll that is under way ends with the process, or on its own."""
        self._stopping.set()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            client = self._clients[failures % len(self._clients)]
            reason = self._poll(client)
            if not reason:
                failures = 0
                self.trouble = ""
                self._stopping.wait(POLL_PAUSE_S)
                continue
            if not self.trouble or failures == 0:
                _log.warning(
                    "databus_channels_away", rest=client.url, reason=reason, version=self.known.channels.version
                )
            self.trouble = reason
            failures += 1
            if failures % len(self._clients) == 0:
                self._stopping.wait(min(RETRY_S_MAX, 0.1 * 2 ** min(failures, 10)) * (0.5 + self._dice.random()))

    def _poll(self, client: RestClient) -> str:
        """Why it failed; empty: it did not."""
        version = self.known.channels.version
        asked = {
            "after": version,
            "wait_ms": WAIT_MS if not self.trouble else 0,
            "agent": self._agent_id,
            "applied": version,
        }
        try:
            response = client.request("GET", PATH, params=asked)
        except (httpx.HTTPError, LoginUnusable, OSError) as error:
            return _reason(error)
        if response.status_code != 200:
            return f"status {response.status_code}{_detail(response)}"
        try:
            found = ClusterChannels.of_json(response.json())
        except (ValueError, InvalidChannel) as error:
            return f"the answer is no set of channels: {_reason(error)}"
        if found != self.known and not found.is_behind(self.known):
            try:
                self._on_change(found)
            except (TimeoutError, CancelledError):
                return "the agent stops"
            self.known = found
        return ""


def _detail(response: httpx.Response) -> str:
    try:
        found: Any = response.json()
    except ValueError:
        return ""
    detail = found.get("detail") or found.get("message") if isinstance(found, dict) else None
    return f": {detail[:300]}" if isinstance(detail, str) else ""


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)[:300] or type(error).__name__
