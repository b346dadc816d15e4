"""The codec of keys or values that options name: a plain one, or one by a schema in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from bmq.cli.kafka.options import missing_library
from bmq.cli.kafka.value_format import PLAIN_CODECS, Codec, ValueFormat

_PROTOBUF: Final = frozenset({ValueFormat.PROTOBUF, ValueFormat.PROTOBUF_ID})
_WITH_ID: Final = frozenset({ValueFormat.AVRO_ID, ValueFormat.PROTOBUF_ID})
_WITH_SCHEMA: Final = frozenset({ValueFormat.AVRO, *_PROTOBUF, *_WITH_ID})


def schema_codec(
    value_format: ValueFormat,
    schema: Path | None,
    message: str,
    schema_id: int | None,
    option: str,
    *,
    is_written: bool = False,
) -> Codec:
    """`option`: what the options begin with. Raises typer.BadParameter, KafkaFailed, MissingLibrary."""
    if (value_format in _WITH_SCHEMA) != (schema is not None):
        needed = (
            "names the schema's file"
            if value_format in _WITH_SCHEMA
            else "is for the formats avro and avro-id, protobuf and protobuf-id"
        )
        raise typer.BadParameter(f"it {needed}", param_hint=f"{option}-schema")
    if (value_format in _PROTOBUF) != bool(message):
        needed = "names the message in the schema" if value_format in _PROTOBUF else "is for Protobuf"
        raise typer.BadParameter(f"it {needed}", param_hint=f"{option}-message")
    has_id = value_format in _WITH_ID
    if (schema_id is not None) != (has_id and is_written):
        raise typer.BadParameter(
            "it is wanted for the formats avro-id and protobuf-id, and for no other", param_hint=f"{option}-schema-id"
        )
    if schema is None:
        return PLAIN_CODECS[value_format]
    written_id = (schema_id or 0) if has_id else None
    try:
        if value_format in _PROTOBUF:
            from bmq.cli.kafka.protobuf_format import ProtobufCodec, read_message

            return ProtobufCodec(read_message(schema, message), written_id)
        from bmq.cli.kafka.avro_format import AvroCodec, read_schema
    except ModuleNotFoundError as error:
        raise missing_library(error) from error
    return AvroCodec(read_schema(schema), written_id)
