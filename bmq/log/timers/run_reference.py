"""How a manifest names a run of delayed records. Pure."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bmq.dataclass import dataclass
from bmq.log.json_adapter import ConfigDict, Field
from bmq.log.timers.announcements import Position

_Natural = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class RunReference:
    """The file `timers.<number>` of `leader_epoch`'s directory: `count` delayed records in order of (due time, name).

    `tier`: how often its records were merged (see run_tiers). Records with names from `end_offset` on do not count: the log has
    lost them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    leader_epoch: _Natural
    number: _Natural
    file_id: int
    length: _Natural
    tier: _Natural
    count: _Natural
    first_due_ms: _Natural
    first_offset: _Natural
    last_due_ms: _Natural
    last_offset: _Natural
    end_offset: _Natural

    @property
    def first(self) -> Position:
        return Position(self.first_due_ms, self.first_offset)

    @property
    def last(self) -> Position:
        return Position(self.last_due_ms, self.last_offset)
