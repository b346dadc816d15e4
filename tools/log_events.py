"""The events that bmq logs, found in its source: what each call of a structlog logger says.

A logger is a name that a module sets with `structlog.get_logger("bmq.…")`, or one that `bind` made of it. Event names
that the code puts together are resolved to all the names they can be: both sides of a condition, the constants that
callers pass, and the constants of a class variable. What cannot be resolved raises UnknownEvent, so no event is left
out. Modules of jobs that use Python's `logging` write sentences and not events; they are not read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
"""The level of each method of a logger."""
TRACEBACK: Final = "exception"
"""The field that has a traceback."""


_Logger: TypeAlias = tuple[str, tuple[str, ...]]
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class UnknownEvent(Exception):
    """A call whose event, level or fields the source does not tell. Give the call constants, or extend this module."""


@dataclass(frozen=True, slots=True)
class LogCall:
    """One call: `event`, its `level`, the `logger`'s name, the `fields` in order, and its `module` (`broker/runtime`)."""

    event: str
    level: str
    logger: str
    fields: tuple[str, ...]
    module: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a logger: all its levels, fields and modules, sorted; fields in the order of the code.

    `sometimes`: fields that not every call has.
    """

    name: str
    logger: str
    levels: tuple[str, ...]
    fields: tuple[str, ...]
    sometimes: frozenset[str]
    modules: tuple[str, ...]


def log_calls(package: Path) -> list[LogCall]:
    """Every call of a structlog logger below `package`, in the order of modules and lines. Raises UnknownEvent."""
    modules = {path: _Module(path, package) for path in sorted(package.rglob("*.py"))}
    source = _Source(list(modules.values()))
    return [call for module in modules.values() for call in module.calls(source)]


def events(calls: Iterable[LogCall]) -> list[Event]:
    """The events by logger and name."""
    found: dict[tuple[str, str], list[LogCall]] = {}
    for call in calls:
        found.setdefault((call.logger, call.event), []).append(call)
    return [
        Event(
            name,
            logger,
            tuple(sorted({call.level for call in same}, key=list(LEVELS).index)),
            tuple(dict.fromkeys(field for call in same for field in call.fields)),
            frozenset(field for call in same for field in call.fields if any(field not in one.fields for one in same)),
            tuple(sorted({call.module for call in same})),
        )
        for (logger, name), same in sorted(found.items())
    ]


class _Source:
    """All modules together: functions that return fields, and constants of classes."""

    def __init__(self, modules: list[_Module]) -> None:
        self._modules = modules

    def fields_of(self, name: str, near: _Module) -> Sequence[tuple[str, ...]]:
        """The keys of each dict that functions or properties of this name return; in the same module, if any has keys."""
        own = near.returned_keys(name)
        return own if any(own) else [keys for one in self._modules for keys in one.returned_keys(name)]

    def text_of(self, node: ast.expr) -> str:
        """The string that an expression is, or that a constant of this name is in any module."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return next((text for one in self._modules if (text := one.text(ast.unparse(node)))), ast.unparse(node))

    def constants(self, name: str, near: _Module) -> list[str]:
        """The strings that classes of the same package give to a class variable of this name."""
        same = [one for one in self._modules if one.package == near.package]
        return sorted({value for one in same for value in one.class_constants(name)})


class _Module:
    def __init__(self, path: Path, package: Path) -> None:
        place = path.relative_to(package).with_suffix("")
        self.name = place.as_posix()
        self.package = place.parts[0]
        self._path = path
        self._source_text = path.read_text(encoding="utf-8")
        self._assigned: dict[_Function, dict[str, list[ast.expr]]] = {}

    @cached_property
    def _tree(self) -> ast.Module:
        """Most modules log nothing and have nothing that others ask for: those are not parsed, which takes most of the time."""
        return ast.parse(self._source_text, str(self._path))

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self._tree))

    def calls(self, source: _Source) -> Iterator[LogCall]:
        loggers = self._loggers(source) if "structlog" in self._source_text else {}
        if loggers:
            yield from self._calls_in(self._tree, (), source, loggers)

    def _calls_in(
        self, node: ast.AST, around: tuple[_Function, ...], source: _Source, loggers: Mapping[str, _Logger]
    ) -> Iterator[LogCall]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield from _Call(child, around, self, source).read(loggers)
            inside = (*around, child) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else around
            yield from self._calls_in(child, inside, source, loggers)

    def _loggers(self, source: _Source) -> dict[str, _Logger]:
        """By the expression that names a logger: the logger's name and the fields bound to it."""
        found: dict[str, _Logger] = {}
        for node in self._nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made = node.value
                maker = ast.unparse(made.func)
                if maker == "structlog.get_logger":
                    name = source.text_of(made.args[0]) if made.args else ""
                    found |= {ast.unparse(target): (name, ()) for target in targets}
                elif isinstance(made.func, ast.Attribute) and made.func.attr == "bind":
                    origin = found.get(ast.unparse(made.func.value))
                    if origin is not None:
                        bound = tuple(word.arg for word in made.keywords if word.arg)
                        found |= {ast.unparse(target): (origin[0], (*origin[1], *bound)) for target in targets}
        return found

    def text(self, name: str) -> str | None:
        """The string that the module gives to a constant of its own."""
        return self._constants.get(name) if name in self._source_text else None

    @cached_property
    def _constants(self) -> dict[str, str]:
        return {
            ast.unparse(node.target): node.value.value
            for node in reversed(self._tree.body)
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        }

    def returned_keys(self, name: str) -> Sequence[tuple[str, ...]]:
        return self._returned_keys.get(name, ()) if f"def {name}(" in self._source_text else ()

    @cached_property
    def _returned_keys(self) -> dict[str, list[tuple[str, ...]]]:
        """By the name of a function. All modules are asked for each name, so a module is walked once for all of them."""
        found: dict[str, list[tuple[str, ...]]] = {}
        for node in self._nodes:
            if isinstance(node, ast.FunctionDef):
                for each in ast.walk(node):
                    keys = dict_keys(each.value) if isinstance(each, ast.Return) else None
                    if keys is not None:
                        found.setdefault(node.name, []).append(keys)
        return found

    def class_constants(self, name: str) -> Sequence[str]:
        return self._class_constants.get(name, ()) if name in self._source_text else ()

    @cached_property
    def _class_constants(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for cls in self._nodes:
            for node in cls.body if isinstance(cls, ast.ClassDef) else ():
                if isinstance(node, ast.AnnAssign):
                    value = node.value
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found.setdefault(ast.unparse(node.target), []).append(value.value)
        return found

    def passed(self, function: str, position: int, keyword: str) -> list[ast.expr]:
        """What callers in this module pass to a function or method of this name. `position`: without `self`."""
        found = []
        for node in self._nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == function:
                if len(node.args) > position:
                    found.append(node.args[position])
                found.extend(word.value for word in node.keywords if word.arg == keyword)
        return found

    def assigned(self, function: _Function, name: str) -> Sequence[ast.expr]:
        """What a function of this module assigns to a local name."""
        if function not in self._assigned:
            found: dict[str, list[ast.expr]] = {}
            assignments = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
            for node in assignments:
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node.value)
            self._assigned[function] = found
        return self._assigned[function].get(name, ())


def dict_keys(node: ast.expr | None) -> tuple[str, ...] | None:
    """The keys of a dict display of constant keys; None if it is something else."""
    if not isinstance(node, ast.Dict):
        return None
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return tuple(keys) if len(keys) == len(node.keys) else None


class _Call:
    """Reads one call, within the functions `around` it."""

    def __init__(self, call: ast.Call, around: tuple[_Function, ...], module: _Module, source: _Source) -> None:
        self._call = call
        self._around = around
        self._module = module
        self._source = source

    def read(self, loggers: Mapping[str, _Logger]) -> Iterator[LogCall]:
        methods = [one for one in self._methods(self._call.func) if ast.unparse(one.value) in loggers]
        if not methods:
            return
        if not self._call.args:
            raise self._unknown("it has no event")
        alternatives = list(self._fields(is_exception=any(one.attr == "exception" for one in methods)))
        for method, event, fields in product(methods, self._texts(self._call.args[0]), alternatives):
            logger, bound = loggers[ast.unparse(method.value)]
            all_fields = tuple(dict.fromkeys((*bound, *fields)))
            yield LogCall(event, LEVELS[method.attr], logger, all_fields, self._module.name)

    def _methods(self, func: ast.expr) -> list[ast.Attribute]:
        """The loggers' methods that this may call: `log.info`, both sides of a condition, or a local name for them."""
        match func:
            case ast.Attribute(attr=attr) if attr in LEVELS:
                return [func]
            case ast.IfExp(body=body, orelse=orelse):
                return [*self._methods(body), *self._methods(orelse)]
            case ast.Name(id=name):
                return [one for value in self._assigned(name) for one in self._methods(value)]
        return []

    def _assigned(self, name: str) -> list[ast.expr]:
        found = [value for function in self._around for value in self._module.assigned(function, name)]
        return [value for value in found if not (isinstance(value, ast.Name) and value.id == name)]

    def _texts(self, node: ast.expr) -> list[str]:
        """All strings that an expression can be."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.IfExp(body=body, orelse=orelse):
                return [*self._texts(body), *self._texts(orelse)]
            case ast.JoinedStr(values=parts):
                if " " in ast.unparse(node):  # a sentence, such as Kafka's line of the audit
                    return ["".join(_template(part) for part in parts)]
                return ["".join(each) for each in product(*(self._texts(part) for part in parts))]
            case ast.FormattedValue(value=value):
                return self._texts(value)
            case ast.Attribute(attr=attr):
                found = self._source.constants(attr.lstrip("_"), self._module)
            case ast.Name(id=name):
                found = [text for value in self._values(name) for text in self._texts(value)]
            case _:
                found = []
        if not found:
            raise self._unknown(f"its event {ast.unparse(node)} is not told by the source")
        return list(dict.fromkeys(found))

    def _values(self, name: str) -> list[ast.expr]:
        """What a local name or an argument can be."""
        for function in reversed(self._around):
            names = [one.arg for one in (*function.args.posonlyargs, *function.args.args) if one.arg != "self"]
            if name in names:
                return self._module.passed(function.name, names.index(name), name)
        return self._assigned(name)

    def _fields(self, *, is_exception: bool) -> Iterator[tuple[str, ...]]:
        """The fields that the call may have: one tuple, or one for each dict that `**` may stand for."""
        parts: list[list[tuple[str, ...]]] = []
        for word in self._call.keywords:
            if word.arg is None:
                parts.append(self._spread(word.value))
            elif word.arg != "exc_info":
                parts.append([(word.arg,)])
        if is_exception or any(word.arg == "exc_info" for word in self._call.keywords):
            parts.append([(TRACEBACK,)])
        for each in product(*parts):
            yield tuple(field for part in each for field in part)

    def _spread(self, node: ast.expr) -> list[tuple[str, ...]]:
        """What `**node` may stand for."""
        keys = dict_keys(node)
        if keys is not None:
            return [keys]
        if isinstance(node, ast.Name):
            found = [keys for value in self._assigned(node.id) for keys in self._spread(value)]
        else:
            called = node.func if isinstance(node, ast.Call) else node
            found = list(self._source.fields_of(called.attr, self._module)) if isinstance(called, ast.Attribute) else []
        if not found:
            raise self._unknown(f"its fields **{ast.unparse(node)} are not told by the source")
        return list(dict.fromkeys(found))

    def _unknown(self, why: str) -> UnknownEvent:
        return UnknownEvent(f"bmq/{self._module.name}.py:{self._call.lineno}: {why}")


def _template(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    name = ast.unparse(part.value)
    return "{" + (name if name.isidentifier() else name.partition("(")[2].rstrip(")") or name) + "}"
