"""Bounds of the code that a reader feels: lengths of modules and functions, parameters, levels of inheritance."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2] / "bmq"
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
LONG_FUNCTIONS_MAX = 5
PARAMETERS_MAX = 8
INHERITANCE_LEVELS_MAX = 2
GENERATED = ("protocol/messages/", "hdfs/proto/")

MANY_PARAMETERS = {
    "dev/hdfs.py HdfsCluster.__init__",
    "hdfs/block_setup.py write_operation",
    "hdfs/block_stream.py BlockStream.open",
    "hdfs/file_takeover.py take_over",
    "hdfs/writer.py HdfsWriter.__init__",
}
"""More parameters than the bound today: none may be added. An option of a command is a parameter for typer."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Measured(NamedTuple):
    """A function with its place."""

    place: str
    lines: int
    parameters: int
    is_command: bool


class Code(NamedTuple):
    """What the tests ask of all modules. `bases`: of each class, by name. Trees are not kept: they are some hundred MB."""

    module_lines: dict[str, int]
    functions: list[Measured]
    bases: dict[str, list[str]]


@cache
def code() -> Code:
    """Of the product, without generated modules."""
    found = Code({}, [], {})
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(GENERATED):
            source = path.read_text()
            found.module_lines[name] = len(source.splitlines())
            add(found, ast.parse(source, name), f"{name} ")
    return found


def add(code: Code, node: ast.AST, place: str) -> None:
    """What is below the node. Expressions have neither functions with a name nor classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        inside = place
        if isinstance(child, Function):
            inside = f"{place}{child.name}."
            lines = (child.end_lineno or 0) - child.lineno + 1
            is_one = is_command(place, child)
            code.functions.append(Measured(f"{place}{child.name}", lines, parameter_count(child), is_one))
        elif isinstance(child, ast.ClassDef):
            inside = f"{place}{child.name}."
            names = [base.value if isinstance(base, ast.Subscript) else base for base in child.bases]
            code.bases[child.name] = [getattr(base, "id", getattr(base, "attr", "")) for base in names]
        add(code, child, inside)


def parameter_count(function: Function) -> int:
    """Without `self` and `cls`."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(named) - (bool(named) and named[0].arg in ("self", "cls"))


OTHER_COMMANDS = {"dump", "produce", "consume", "up", "run", "tail"}
"""Functions that become commands without a decorator of their own, or in another module of bmq.cli."""


def is_command(place: str, function: Function) -> bool:
    """Whether typer makes a command of it."""
    if place.startswith("cli/") and function.name in OTHER_COMMANDS:
        return True
    calls = [one.func for one in function.decorator_list if isinstance(one, ast.Call)]
    return any(isinstance(called, ast.Attribute) and called.attr in ("command", "callback") for called in calls)


def levels(bases: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Levels of inheritance among our own classes, by name; exceptions and protocols aside."""

    @cache
    def is_aside(name: str) -> bool:
        return any(
            base in ("Exception", "BaseException", "BmqError", "Protocol") or (base in bases and is_aside(base))
            for base in bases[name]
        )

    @cache
    def level(name: str) -> int:
        return 1 + max((level(base) for base in bases[name] if base in bases), default=-1)

    return {name: level(name) for name in bases if not is_aside(name)}


def test_functions_and_classes_are_found_wherever_statements_are() -> None:
    source = """
class Outer(Base[int], Protocol):
    def method(self, one, *, two=lambda: 3):
        if one:
            def inner(): pass
try:
    async def guarded(): pass
except ValueError:
    pass
"""
    found = Code({}, [], {})
    add(found, ast.parse(source), "m ")
    assert [(one.place, one.lines, one.parameters) for one in found.functions] == [
        ("m Outer.method", 3, 2),
        ("m Outer.method.inner", 1, 0),
        ("m guarded", 1, 0),
    ]
    assert found.bases == {"Outer": ["Base", "Protocol"]}


def test_no_module_is_longer_than_the_bound() -> None:
    assert {name: count for name, count in code().module_lines.items() if count > MODULE_LINES_MAX} == {}


def test_few_functions_are_longer_than_the_bound() -> None:
    long = {one.place: one.lines for one in code().functions if one.lines > FUNCTION_LINES_MAX and not one.is_command}
    assert len(long) <= LONG_FUNCTIONS_MAX, long


def test_no_function_has_more_parameters_than_the_bound() -> None:
    many = {
        one.place: one.parameters for one in code().functions if one.parameters > PARAMETERS_MAX and not one.is_command
    }
    assert many.keys() == MANY_PARAMETERS, {place: many.get(place) for place in many.keys() ^ MANY_PARAMETERS}


def test_no_class_has_more_levels_than_the_bound() -> None:
    deep = {name: level for name, level in levels(code().bases).items() if level > INHERITANCE_LEVELS_MAX}
    assert deep == {}
