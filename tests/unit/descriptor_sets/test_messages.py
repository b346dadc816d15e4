"""What is said of descriptor sets: by tables, channels and commands in the same words."""

from __future__ import annotations

import base64
from typing import Annotated

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from bmq.descriptor_sets.base64_text import IS_BASE64
from bmq.descriptor_sets.messages import InvalidDescriptorSet, load_message
from tests.unit.table_definitions.definitions import descriptor_set

pytestmark = pytest.mark.unit

WHOLE = base64.b64decode(descriptor_set())


def of_files(*files: FileDescriptorProto) -> bytes:
    return FileDescriptorSet(file=files).SerializeToString()


def test_a_message_is_found_with_what_it_imports() -> None:
    order = load_message(WHOLE, "shop.Order")
    assert order.full_name == "shop.Order"
    imported = order.fields_by_name["at"].message_type
    assert imported is not None and imported.full_name == "google.protobuf.Timestamp"


def test_two_sets_may_have_a_message_of_the_same_name() -> None:
    other = base64.b64decode(descriptor_set(id_number=9))
    assert load_message(WHOLE, "shop.Order").fields_by_name["id"].number == 1
    assert load_message(other, "shop.Order").fields_by_name["id"].number == 9


@pytest.mark.parametrize(
    ("data", "message", "sentence"),
    [
        (b"\xff", "A", "it is no descriptor set; protoc --descriptor_set_out writes one"),
        (WHOLE, "shop.None", "it has no message shop.None, or lacks what that imports"),
        (b"", "A", "it has no message A, or lacks what that imports"),
        (
            of_files(FileDescriptorProto(name="a.proto", dependency=["b.proto"])),
            "A",
            "its file 'a.proto' does not fit the others, or one that it imports is missing; protoc --include_imports adds those",
        ),
    ],
)
def test_what_is_refused(data: bytes, message: str, sentence: str) -> None:
    with pytest.raises(InvalidDescriptorSet) as found:
        load_message(data, message)
    assert str(found.value) == sentence


def test_the_name_of_a_damaged_file_stays_one_short_line() -> None:
    name = "a\n\x1b[2Jb" * 1_000
    with pytest.raises(InvalidDescriptorSet) as found:
        load_message(of_files(FileDescriptorProto(name=name, dependency=["b.proto"])), "A")
    assert str(found.value).isprintable()
    assert len(str(found.value)) < 600


@given(st.binary(max_size=60))
def test_any_bytes_are_a_set_or_a_sentence(data: bytes) -> None:
    for damaged in (data, WHOLE[: len(data) * 4] + data + WHOLE[len(data) * 5 :]):
        try:
            assert load_message(damaged, "shop.Order").full_name == "shop.Order"
        except InvalidDescriptorSet as error:
            assert str(error).startswith("it")


class Part(BaseModel):
    descriptor_set: Annotated[str, IS_BASE64]


def test_a_text_is_base64() -> None:
    assert Part(descriptor_set=descriptor_set()).descriptor_set == descriptor_set()
    for text in ("not Base64!", "AAA", "ä"):
        with pytest.raises(ValidationError) as found:
            Part(descriptor_set=text)
        (error,) = found.value.errors()
        assert error["msg"] == "it is not Base64"
