"""A table's definition in a file: its JSON form, in which schemas may be named as files beside it."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any, Final

from bmq.cli.bounded_file import read_bounded
from bmq.table_definitions.definition import InvalidDefinition, TableDefinition

STANDARD_INPUT: Final = "-"
_FILE_BYTES_MAX: Final = 1024 * 1024


def read_definition(path: Path, **given: object) -> TableDefinition:
    """Files named within are looked up beside it. `given`: keys that the file may leave out.

    Raises InvalidDefinition with one sentence, also for a file that says otherwise than `given`.
    """
    is_stdin = str(path) == STANDARD_INPUT
    name = "standard input" if is_stdin else str(path)
    data = sys.stdin.buffer.read(_FILE_BYTES_MAX + 1) if is_stdin else _read(path)
    form = _parsed(data, name)
    if isinstance(form, dict):
        for key, value in given.items():
            if form.setdefault(key, value) != value:
                raise InvalidDefinition(
                    f"{name}: its {key} is {form[key]!r}, and the command says {value!r}; leave it out"
                )
        _fill_in(form, Path() if is_stdin else path.parent)
    try:
        return TableDefinition.from_json(json.dumps(form))
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{name}: {error}") from None


def _fill_in(form: dict[str, Any], directory: Path) -> None:
    """Put the content of files in the place of their names."""
    avro, protobuf = form.get("avro"), form.get("protobuf")
    if isinstance(avro, dict):
        if "writer_schema_file" in avro:
            avro["writer_schema"] = _schema(directory, avro.pop("writer_schema_file"), "avro.writer_schema_file")
        if "writer_schema_files" in avro:
            files = avro.pop("writer_schema_files")
            if not isinstance(files, dict):
                raise InvalidDefinition("avro.writer_schema_files: an object with a file for each id is wanted")
            avro["writer_schemas"] = {
                schema_id: _schema(directory, file, f"avro.writer_schema_files.{schema_id}")
                for schema_id, file in files.items()
            }
    if isinstance(protobuf, dict) and "descriptor_set_file" in protobuf:
        file = _beside(directory, protobuf.pop("descriptor_set_file"), "protobuf.descriptor_set_file")
        protobuf["descriptor_set"] = base64.b64encode(_read(file)).decode()


def _schema(directory: Path, file: object, key: str) -> Any:
    path = _beside(directory, file, key)
    return _parsed(_read(path), str(path))


def _beside(directory: Path, file: object, key: str) -> Path:
    if not isinstance(file, str) or not file or "\0" in file:
        raise InvalidDefinition(f"{key}: the name of a file is wanted")
    return directory / file


def _read(path: Path) -> bytes:
    return read_bounded(path, _FILE_BYTES_MAX, InvalidDefinition)


def _parsed(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidDefinition(f"{name} is no JSON: {error}") from None
