"""Write bmq/protocol/messages/: one superset dataclass per Kafka message, from kio's generated schemas.

kio has one class per API *version*; a handler wants one class per API. Each class written here has the fields of all
versions, every one with the default Kafka gives it where a version lacks it. Durations and times are whole
milliseconds (`…_ms`), error codes are `int`. `bmq/protocol/codec.py` reads and writes them with kio's own machinery.

    python tools/generate_messages.py            rewrite the modules
    python tools/generate_messages.py --check    exit 1 if they are not what this script would write
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import subprocess
import sys
import types
import typing
import uuid
from pathlib import Path

from kio.schema.index import api_key_map

from bmq.protocol.apis import APIS
from bmq.protocol.later_fields import LATER_FIELDS, later_field_default
from bmq.protocol.schema_fields import WireField, wire_fields

TARGET = Path(__file__).parent.parent / "bmq" / "protocol" / "messages"
HEADER = '"""{title}: every field of every version served. Written by tools/generate_messages.py; do not edit."""\n'


def annotation(field: WireField) -> str:
    """The Python type of a field in a message class, as source text."""
    inner = field.entity.__name__ if field.entity is not None else field.python_type
    if field.is_array:
        inner = f"Sequence[{inner}]"
    return f"{inner} | None" if field.nullable else inner


def default_source(field: WireField) -> str:
    value = field.default
    if dataclasses.is_dataclass(value):
        return f"dataclasses.field(default_factory=lambda: {field.entity.__name__}())"  # type: ignore[union-attr]
    if isinstance(value, uuid.UUID):
        return f"UUID(int={value.int})"
    return repr(value)


def module_source(title: str, newest_first: list[type]) -> str:
    """Source of one module: the classes of a message and all it nests, leaves first."""
    classes: dict[str, dict[str, WireField]] = {}

    def collect(entity: type) -> None:
        known = classes.setdefault(entity.__name__, {})
        for field in wire_fields(entity):
            before = known.get(field.name)
            if before is None:
                known[field.name] = field
            elif field.nullable and not before.nullable:
                known[field.name] = dataclasses.replace(before, nullable=True)
            if field.entity is not None:
                collect(field.entity)

    for entity in newest_first:
        collect(entity)
    for (class_name, _), fields in LATER_FIELDS.items():
        if class_name in classes:
            for field in fields:
                classes[class_name].setdefault(
                    field.name, dataclasses.replace(field, default=later_field_default(field))
                )
    done: list[str] = []

    def order(name: str) -> None:
        for field in classes[name].values():
            if field.entity is not None and field.entity.__name__ not in done:
                order(field.entity.__name__)
        if name not in done:
            done.append(name)

    for entity in newest_first:
        order(entity.__name__)
    lines = [
        HEADER.format(title=title),
        "",
        "import dataclasses",
        "from collections.abc import Sequence",
        "from typing import Any",
        "from uuid import UUID",
        "",
    ]
    for name in done:
        lines += ["", "@dataclasses.dataclass(slots=True, kw_only=True)", f"class {name}:"]
        lines += [f"    {f.name}: {annotation(f)} = {default_source(f)}" for f in classes[name].values()] or [
            "    pass"
        ]
        lines.append("")
    text = "\n".join(lines)
    for module, word in (
        ("UUID", "from uuid import UUID"),
        ("Any", "from typing import Any"),
        ("Sequence", "from collections.abc import Sequence"),
    ):
        if text.count(module) == 1:
            text = text.replace(word + "\n", "")
    return text


def formatted(source: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        result = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", "message.py", "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        )
        source = result.stdout
    return source


def sources() -> dict[str, str]:
    written = {}
    for key, api in APIS.items():
        package = api_key_map[int(key)]
        for kind in ("request", "response"):
            entities = []
            for version in range(api.schema_max, api.schema_min - 1, -1):
                module: types.ModuleType = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
                camel = "".join(part.capitalize() for part in package.split("_"))
                entities.append(typing.cast(type, getattr(module, f"{camel}{kind.capitalize()}")))
            written[f"{package}_{kind}"] = formatted(module_source(f"{camel}{kind.capitalize()}", entities))
    written["__init__"] = (
        '"""Kafka messages as plain dataclasses. Written by tools/generate_messages.py; do not edit."""\n'
    )
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    TARGET.mkdir(exist_ok=True)
    stale = []
    for name, source in sources().items():
        path = TARGET / f"{name}.py"
        if not path.exists() or path.read_text() != source:
            stale.append(path.name)
            if not check:
                path.write_text(source)
    if check and stale:
        print(f"stale: {', '.join(stale)}; run python tools/generate_messages.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
