"""Parameters that several pages have."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Header, Path, Query
from pydantic import BeforeValidator, Field

from bmq.admin.operations import Operations
from bmq.admin.rest.problems import ElsewhereError, ProblemError
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import url_of
from bmq.channels.channel import CHANNEL_NAME
from bmq.table_definitions.definition import TABLE_NAME

_INT32_MAX: Final = 2**31 - 1
_NAME_CHARACTERS: Final = "a-zA-Z0-9._-"
EXACT_MAX: Final = 2**53 - 1
"""The largest whole number that JSON has exactly."""
KEY_CHARACTERS_MAX: Final = 128

NodeId = Annotated[int, Path(ge=0, le=_INT32_MAX, description="Id of a node")]
TopicName = Annotated[
    str, Path(pattern=f"^[{_NAME_CHARACTERS}]{{1,249}}$", max_length=249, description="Name of a topic")
]
GroupName = Annotated[str, Path(min_length=1, max_length=1_000, description="Name of a group")]
TransactionalId = Annotated[str, Path(min_length=1, max_length=1_000, description="A transactional id")]
TableName = Annotated[str, Path(pattern=f"^{TABLE_NAME}$", max_length=100, description="Name of a table")]
ChannelName = Annotated[str, Path(pattern=f"^{CHANNEL_NAME}$", max_length=100, description="Name of a channel")]
PartitionNumber = Annotated[int, Path(ge=0, le=_INT32_MAX, description="Number of a partition")]
TaskId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="Id of a task")]
TopicPrefix = Annotated[str, Query(pattern=f"^[{_NAME_CHARACTERS}]{{0,249}}$", max_length=249)]
DryRun = Annotated[bool, Query(description="Say what would be done, and do nothing")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARACTERS_MAX,
        pattern="^[!-~]+$",
        description="The same key and the same request: the same task, for a day",
    ),
]


def _is_number(value: object) -> object:
    """JSON has one kind of number: 3.0 is as good as 3, but "3" and true are not."""
    if isinstance(value, str | bool):
        raise ValueError("a number is wanted")
    return value


NUMBER: Final = BeforeValidator(_is_number)
"""Validates an integer in a body."""
WholeNumber = Annotated[int, Field(ge=0, le=EXACT_MAX), NUMBER]
"""An offset, a time or an id in a body; it is not negative."""


def operations_here(sources: RestSources) -> Operations:
    """The operations, if the active controller is in this process.

    Raises ElsewhereError with its address when it is another one, ProblemError when there is none.
    """
    operations = sources.operations()
    if operations is None:
        raise ProblemError(409, "this server is the whole cluster: nothing in it can be drained, moved or scaled")
    if operations.is_active:
        return operations
    raise not_here(sources)


def not_here(sources: RestSources) -> ElsewhereError | ProblemError:
    """The error to raise when only the active controller can answer, and it is not in this process."""
    image = sources.image()
    controller = image.nodes.get(image.controller_id)
    if controller is None or controller.rest is None or controller.node_id == sources.node_id:
        return ProblemError(503, "there is no active controller now; ask again in a moment")
    return ElsewhereError(url_of(controller.rest, sources.scheme))
