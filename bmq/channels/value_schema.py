"""Checks of channels' values. JSON Schemas are compiled by jsonschema-rs, which is imported with the first one. Decisions only.

A schema cannot make its reader fetch anything: references lead into the schema itself, and to the drafts' meta-schemas.
Its regular expressions are matched in linear time. Sentences never contain values of records.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from bmq.channels.channel import Channel, InvalidChannel, ProtobufMessage, SchemaCheck
from bmq.extras import install_command
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

if TYPE_CHECKING:
    from bmq.channels.protobuf_values import MessageCheck

EXTRA: Final = "databus"
_PLACE_CHARACTERS_MAX: Final = 100
_WHAT_CHARACTERS_MAX: Final = 200


class SchemaCheckMissing(BmqError):
    """The package that checks JSON Schemas is not installed here."""

    code = ErrorCode.INVALID_REQUEST


class _Validator(Protocol):
    def validate(self, instance: Any) -> None: ...


class ValueCheck:
    """What a channel's `schema_check` says of values. Made once per channel: compiling a schema takes milliseconds."""

    def __init__(self, channel: Channel) -> None:
        """Raises InvalidChannel for a schema that is none, SchemaCheckMissing."""
        self._is_json = channel.schema_check in (SchemaCheck.JSON, SchemaCheck.JSON_SCHEMA)
        self._message = None if channel.protobuf is None else _message_check(channel.protobuf)
        self._validator = None if channel.json_schema is None else _compiled(channel.json_schema)

    def problem_of(self, value: bytes | None) -> str | None:
        """Why a channel does not take this value, in one sentence; None: it does. Null is no JSON."""
        if self._message is not None:
            return self._message.problem_of(value)
        if not self._is_json:
            return None
        if value is None:
            return "the record has no value, and the channel takes JSON"
        try:
            instance = json.loads(value)
        except RecursionError:
            return "the value is nested too deep"
        except ValueError:  # of the encoding as well
            return "the value is no JSON"
        if self._validator is None:
            return None
        try:
            self._validator.validate(instance)
        except ValueError as error:
            return f"by the channel's schema, {_sentence(error)}"
        return None


def _message_check(schema: ProtobufMessage) -> MessageCheck:
    """Raises InvalidChannel."""
    # Imported late: only channels with such a schema need it.
    from bmq.channels.protobuf_values import MessageCheck

    return MessageCheck(schema)


def _compiled(text: str) -> _Validator:
    """Raises InvalidChannel, SchemaCheckMissing."""
    try:
        # Imported late: only channels with a schema need it.
        import jsonschema_rs
    except ImportError as error:
        raise SchemaCheckMissing(
            f"JSON Schemas cannot be checked here: install jsonschema-rs with `{install_command(EXTRA)}`"
        ) from error
    try:
        validator: _Validator = jsonschema_rs.validator_for(
            json.loads(text), offline=True, mask="the value", pattern_options=jsonschema_rs.RegexOptions()
        )
    except ValueError as error:
        raise InvalidChannel(f"json_schema: {_sentence(error)}") from None
    return validator


def _sentence(error: ValueError) -> str:
    """The first line of the library's error, and where in the value it is."""
    what = str(getattr(error, "message", error)).partition("\n")[0][:_WHAT_CHARACTERS_MAX]
    place = ".".join(str(step) for step in getattr(error, "instance_path", ()))[:_PLACE_CHARACTERS_MAX]
    return f"{what} at {place}" if place else what
