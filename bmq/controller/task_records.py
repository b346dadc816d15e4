"""Operators' tasks in the metadata log: each is one text, so the next controller knows them. Decisions only.

What a task is, bmq.admin.stored_tasks says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bmq.controller.decision import Decision
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import TASK_CONFIG
from bmq.protocol.metadata_records import RESOURCE_TYPE_TASK, ConfigRecord

TASK_BYTES_MAX: Final = 32 * 1024
"""Of one task's text."""


def decide_keep_task(image: MetadataImage, task_id: str, text: str, forgotten: Iterable[str]) -> Decision[None]:
    """Write the task as it is now, and take the `forgotten` ones out. `text` has TASK_BYTES_MAX at most."""
    gone = (other for other in forgotten if other in image.tasks and other != task_id)
    return Decision(None, (_record(task_id, text), *(_record(other, None) for other in gone)))


def _record(task_id: str, text: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=RESOURCE_TYPE_TASK, resource_name=task_id, name=TASK_CONFIG, value=text)
