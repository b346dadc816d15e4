"""Settings that the process that cleans logs needs, in a form that it reads without pydantic."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from bmq.dataclass import dataclass
from bmq.hdfs.config import HdfsSettings, WriteMode
from bmq.server.stores import StoreSettings


class ServerSettings(StoreSettings, Protocol):
    """The settings of the server that begins the process."""

    @property
    def log_level(self) -> str: ...

    @property
    def log_format(self) -> str: ...


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """Fields of bmq.server.settings.Settings."""

    store: str
    data: Path
    hdfs: HdfsSettings
    start_wait_ms: int
    log_level: str
    log_format: str

    @classmethod
    def of(cls, settings: ServerSettings) -> CompactionSettings:
        return cls(
            settings.store,
            settings.data,
            settings.hdfs,
            settings.start_wait_ms,
            settings.log_level,
            settings.log_format,
        )

    def encode(self) -> bytes:
        return json.dumps({**asdict(self), "data": str(self.data)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> CompactionSettings:
        """Raises ValueError."""
        try:
            fields = json.loads(data)
            hdfs = fields.pop("hdfs")
            hdfs["write_mode"] = WriteMode(hdfs["write_mode"])
            return cls(data=Path(fields.pop("data")), hdfs=HdfsSettings(**hdfs), **fields)
        except (TypeError, KeyError) as error:
            raise ValueError(f"no settings of a cleaning: {error}") from error
