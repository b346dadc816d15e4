"""Messages of a descriptor set, as `protoc --include_imports --descriptor_set_out=FILE` writes it. Decisions only."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

_FILE_SHOWN_MAX: Final = 100


class InvalidDescriptorSet(Exception):
    """One sentence about the set, which it calls "it"; the caller says whose set that is."""


def load_message(descriptor_set: bytes, message: str) -> Descriptor:
    """The message of this full name, in a pool of its own. Raises InvalidDescriptorSet."""
    try:
        files = FileDescriptorSet.FromString(descriptor_set)
    except DecodeError:
        raise InvalidDescriptorSet("it is no descriptor set; protoc --descriptor_set_out writes one") from None
    pool = DescriptorPool()
    for file in files.file:
        try:
            pool.Add(file)
        except TypeError:
            # As Python writes it: the name of a damaged file may have any characters.
            raise InvalidDescriptorSet(
                f"its file {file.name[:_FILE_SHOWN_MAX]!r} does not fit the others, or one that it imports is missing; "
                "protoc --include_imports adds those"
            ) from None
    try:
        return pool.FindMessageTypeByName(message)
    except (KeyError, TypeError):
        raise InvalidDescriptorSet(f"it has no message {message}, or lacks what that imports") from None
