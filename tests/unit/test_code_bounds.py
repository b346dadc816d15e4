"""Bounds of the code that a reader feels: lengths of modules and functions, parameters, levels of inheritance."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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


@cache
def modules() -> dict[str, ast.Module]:
    """Each module of the product by its path, without generated ones."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(GENERATED):
            found[name] = ast.parse(path.read_text(), name)
    return found


def functions() -> Iterator[tuple[str, Function]]:
    """Each function with its place."""

    def below(node: ast.AST, place: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{place}{child.name}", child
                yield from below(child, f"{place}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from below(child, f"{place}{child.name}.")
            else:
                yield from below(child, place)

    for name, tree in modules().items():
        yield from below(tree, f"{name} ")


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


def levels() -> dict[str, int]:
    """Levels of inheritance among our own classes, by name; exceptions and protocols aside."""
    bases: dict[str, list[str]] = {}
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
                bases[node.name] = [getattr(base, "id", getattr(base, "attr", "")) for base in names]

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


def test_no_module_is_longer_than_the_bound() -> None:
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in modules()}
    assert {name: count for name, count in lengths.items() if count > MODULE_LINES_MAX} == {}


def test_few_functions_are_longer_than_the_bound() -> None:
    long = {
        place: lines
        for place, function in functions()
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
        and not is_command(place, function)
    }
    assert len(long) <= LONG_FUNCTIONS_MAX, long


def test_no_function_has_more_parameters_than_the_bound() -> None:
    many = {
        place: count
        for place, function in functions()
        if (count := parameter_count(function)) > PARAMETERS_MAX and not is_command(place, function)
    }
    assert many.keys() == MANY_PARAMETERS, {place: many.get(place) for place in many.keys() ^ MANY_PARAMETERS}


def test_no_class_has_more_levels_than_the_bound() -> None:
    deep = {name: level for name, level in levels().items() if level > INHERITANCE_LEVELS_MAX}
    assert deep == {}
