"""Write bmq/protocol/messages/: for each Kafka message its classes and its format in every version, from kio's schemas.

kio has one class per API *version*; a handler wants one class per API. Each class written here has the fields of all
versions served, every one with the default Kafka gives it where a version lacks it. Durations and times are whole
milliseconds (`…_ms`), error codes are `int`. Their constructors, which alone know the defaults, are written out, and they
have docstrings, because what `dataclass` makes of two hundred classes (compiling methods, asking for signatures) is a
tenth of a start. Beside the classes stands FORMAT, from which bmq/protocol/wire.py compiles readers and writers: so the
server never loads kio (1.2 s and 338 modules for all versions).

    python tools/generate_messages.py            rewrite the modules
    python tools/generate_messages.py --check    exit 1 if they are not what this script would write
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from kio.schema.index import api_key_map
from later_fields import INSERTED_FIELDS, LATER_FIELDS, REPLACED_FIELDS
from later_messages import LATER_MESSAGES
from schema_fields import WireField, wire_fields

from bmq.protocol.apis import ALL_APIS, OWN_API_KEYS_FROM, Api

TARGET = Path(__file__).parent.parent / "bmq" / "protocol" / "messages"
HEADER = '"""{title}: every field of every version served. Written by tools/generate_messages.py; do not edit."""'
PACKAGE = '"""Kafka messages as plain dataclasses. Written by tools/generate_messages.py; do not edit."""\n'
IMPORTS = """
import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message
"""

NULLABLE_TYPES = ("string", "bytes", "records")
VersionFields = dict[int, tuple[WireField, ...]]


class Form(NamedTuple):
    """A field as one or more versions have it: what has to agree for them to share an entry."""

    name: str
    kafka_type: str | None
    entity: str | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any


def annotation(field: WireField) -> str:
    """The Python type of a field in a message class, as source text."""
    inner = field.entity.__name__ if field.entity is not None else field.python_type
    if field.is_array:
        inner = f"Sequence[{inner}]"
    return f"{inner} | None" if field.nullable else inner


def default_source(field: WireField) -> str:
    value = field.default
    if isinstance(value, uuid.UUID):
        return f"UUID(int={value.int})"
    return repr(value)


def form_of(field: WireField) -> Form:
    # Fixed-size fields are never null on the wire; kio marks a zero uuid so.
    nullable = field.nullable and (field.is_array or field.entity is not None or field.kafka_type in NULLABLE_TYPES)
    default = None
    if field.tag is not None and not dataclasses.is_dataclass(field.default):
        default = field.default
    entity = None if field.entity is None else field.entity.__name__
    return Form(field.name, field.kafka_type, entity, field.is_array, nullable, field.tag, default)


def fields_of(entity: type, place: tuple[str, int]) -> Iterator[WireField]:
    """Of a class in a version, with what came after kio; `place`: as tools/later_fields.py names both."""
    replaced, inserted = REPLACED_FIELDS.get(place, {}), INSERTED_FIELDS.get(place, {})
    for field in wire_fields(entity):
        now = replaced.get(field.name, field)
        if now is not None:
            yield now
        if field.name in inserted:
            yield inserted[field.name]
    yield from LATER_FIELDS.get(place, ())


def collect(title: str, versions: dict[int, type]) -> dict[str, VersionFields]:
    """For every class of a message, newest version first: its fields by version."""
    classes: dict[str, VersionFields] = {}

    def add(entity: type, version: int) -> None:
        name = entity.__name__
        fields = tuple(fields_of(entity, (name if name == title else f"{title}.{name}", version)))
        classes.setdefault(entity.__name__, {})[version] = fields
        for field in fields:
            if field.entity is not None:
                add(field.entity, version)

    for version in sorted(versions, reverse=True):
        add(versions[version], version)
    return classes


def leaves_first(classes: dict[str, VersionFields]) -> list[str]:
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        for fields in classes[name].values():
            for field in fields:
                if field.entity is not None:
                    visit(field.entity.__name__)
        done.append(name)

    for name in classes:
        visit(name)
    return done


def parameter_source(field: WireField) -> tuple[str, str]:
    """Of a constructor: the parameter, and what the attribute gets."""
    name, kind = field.name, annotation(field)
    if not dataclasses.is_dataclass(field.default):
        return f"{name}: {kind} = {default_source(field)}", name
    if field.nullable:
        raise ValueError(f"{name} may be null, and is not null by default")
    return f"{name}: {kind} | None = None", f"{kind}() if {name} is None else {name}"


def class_source(name: str, versions: VersionFields, title: str) -> Iterator[str]:
    merged: dict[str, WireField] = {}
    for version in sorted(versions, reverse=True):
        for field in versions[version]:
            before = merged.get(field.name)
            if before is None:
                merged[field.name] = field
            elif field.nullable and not before.nullable:
                merged[field.name] = dataclasses.replace(before, nullable=True)
    yield from ("", "", "@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)")
    yield f"class {name}(Message):"
    yield f'    """{"The message" if name == title else f"A part of {title}"}."""'
    if not merged:
        return
    yield ""
    yield from (f"    {f.name}: {annotation(f)}" for f in merged.values())
    parameters = {f.name: parameter_source(f) for f in merged.values()}
    yield ""
    yield f"    def __init__(self, *, {', '.join(source for source, _ in parameters.values())},) -> None:"
    yield from (f"        self.{attribute} = {value}" for attribute, (_, value) in parameters.items())


def in_wire_order(versions: VersionFields) -> list[Form]:
    """All forms in one order that agrees with every version's: fields keep their places as versions come and go."""
    orders = [[form_of(field) for field in fields] for fields in versions.values()]
    pending = list(dict.fromkeys(form for order in orders for form in order))
    placed: list[Form] = []
    while pending:
        for form in pending:
            before = {other for order in orders if form in order for other in order[: order.index(form)]}
            if before <= set(placed):
                placed.append(form)
                pending.remove(form)
                break
        else:
            raise ValueError(f"no order of fields agrees with all versions: {pending}")
    return placed


def runs(versions: list[int]) -> list[tuple[int, int]]:
    """Sorted versions as inclusive ranges."""
    found: list[tuple[int, int]] = []
    for version in sorted(versions):
        if found and found[-1][1] == version - 1:
            found[-1] = (found[-1][0], version)
        else:
            found.append((version, version))
    return found


def format_source(name: str, versions: VersionFields, api: Api, is_top: bool) -> Iterator[str]:
    flexible_from = "NEVER" if api.flexible_from is None else api.flexible_from
    yield f"{'FORMAT' if is_top else constant(name)}: Final = Format("
    yield f"    {name}, version_min={api.version_min}, version_max={api.version_max}, flexible_from={flexible_from},"
    yield "    fields=("
    for form in in_wire_order(versions):
        present = [version for version, fields in versions.items() if form in map(form_of, fields)]
        for low, high in runs(present):
            parts = [repr(form.name)]
            parts += [repr(form.kafka_type)] if form.kafka_type else []
            parts += [f"since={low}"] if low > api.version_min else []
            parts += [f"until={high}"] if high < api.version_max else []
            parts += [f"entity={constant(form.entity)}"] if form.entity else []
            parts += ["is_array=True"] if form.is_array else []
            parts += ["nullable_since=0"] if form.nullable else []
            parts += [f"tag={form.tag}"] if form.tag is not None else []
            parts += [f"default={form.default!r}"] if form.default is not None else []
            yield f"        FormatField({', '.join(parts)}),"
    yield "    ),"
    yield ")"


def constant(class_name: str) -> str:
    return "_" + "".join(f"_{c}" if c.isupper() and i else c.upper() for i, c in enumerate(class_name)).upper()


def module_source(title: str, versions: dict[int, type], api: Api) -> str:
    classes = collect(title, versions)
    lines = [HEADER.format(title=title), IMPORTS]
    for name in leaves_first(classes):
        lines += class_source(name, classes[name], title)
    lines += [""]
    for name in leaves_first(classes):
        lines += format_source(name, classes[name], api, name == title)
    return "\n".join(lines).replace("flexible_from=NEVER", "flexible_from=NEWEST") + "\n"


def sources() -> dict[str, str]:
    written = {"__init__": PACKAGE}
    for key, api in ALL_APIS.items():
        if key >= OWN_API_KEYS_FROM:
            continue
        later: dict[str, Any]
        package, later = LATER_MESSAGES.get(int(key)) or (api_key_map[int(key)], {})
        for kind in ("request", "response"):
            title = "".join(part.capitalize() for part in package.split("_")) + kind.capitalize()
            versions: dict[int, Any] = {}
            for version in range(api.version_min, api.version_max + 1):
                if later:
                    versions[version] = later[kind]  # type: ignore[index]
                    continue
                module = importlib.import_module(f"kio.schema.{package}.v{min(version, api.schema_max)}.{kind}")
                versions[version] = getattr(module, title)
            source = module_source(title, versions, api)
            if "NEWEST" in source:
                source = source.replace("import Format,", "import NEWEST, Format,")
            written[f"{package}_{kind}"] = source
    return formatted(written)


def formatted(written: dict[str, str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, source in written.items():
            (Path(folder) / f"{name}.py").write_text(source)
        options = ["--quiet", "--config", str(TARGET.parent.parent.parent / "pyproject.toml"), folder]
        for command in (["check", "--fix", "--select", "I,F401"], ["format"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, *options], check=True)
        return {name: (Path(folder) / f"{name}.py").read_text() for name in written}


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
