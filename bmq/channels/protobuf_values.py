"""Values of channels that are messages of Protobuf: what is no such message, and what has fields that it does not know.

Decisions only. Any bytes of numbered fields can be read as a message of any type, so a field that the schema does not know is a
fault: it is how values of another message show. Sentences never contain values of records.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from bmq.channels.channel import InvalidChannel, ProtobufMessage
from bmq.descriptor_sets.messages import InvalidDescriptorSet, load_message


class MessageCheck:
    """Raises InvalidChannel for a descriptor set that is none, or that lacks the message."""

    def __init__(self, schema: ProtobufMessage) -> None:
        try:
            descriptor = load_message(base64.b64decode(schema.descriptor_set), schema.message)
        except InvalidDescriptorSet as error:
            raise InvalidChannel(f"protobuf.descriptor_set: {error}") from None
        self._parse = GetMessageClass(descriptor).FromString
        self._name = schema.message

    def problem_of(self, value: bytes | None) -> str | None:
        """Why the value is no such message, in one sentence; None: it is one."""
        if value is None:
            return f"the record has no value, and the channel takes messages {self._name}"
        try:
            message = self._parse(value)
        except DecodeError:
            return f"the value is no message {self._name}"
        return _unknown(message)


def _unknown(root: Any) -> str | None:
    """The first field that the schema does not know. The library bounds the depth of a message."""
    waiting = [root]
    while waiting:
        message = waiting.pop()
        unknown = UnknownFieldSet(message)
        if len(unknown):
            return f"the value has a field {unknown[0].field_number} that {message.DESCRIPTOR.full_name} does not have"
        for field, content in message.ListFields():
            if field.message_type is None:
                continue
            if not field.is_repeated:
                waiting.append(content)
            elif not field.message_type.GetOptions().map_entry:
                waiting.extend(content)
            elif field.message_type.fields_by_number[2].message_type is not None:
                waiting.extend(content.values())
    return None
