"""`dataclass` as of the standard library, but made in a seventh of the time: a start makes more than five hundred of them.

The standard one compiles three to six methods for each class (0.4-0.8 ms). Here `dataclasses` finds the fields and makes the
slots, and each method is compiled when it is first called: of most classes a process never makes an instance, or never
compares two. What `dataclasses` does with an instance (`replace`, `fields`, `asdict`) works as ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        slots: bool = False,
        frozen: bool = False,
        kw_only: bool = False,
        eq: bool = True,
        unsafe_hash: bool = False,
    ) -> Any:
        """Always with slots. For `order` and InitVar take the standard one. Raises TypeError."""
        if not slots:
            raise TypeError("a dataclass of bmq has slots")

        def made(cls: type) -> type:
            return _made(cls, is_frozen=frozen, kw_only=kw_only, eq=eq, is_hashed=unsafe_hash or (frozen and eq))

        return made if cls is None else made(cls)


Method = Callable[..., Any]

_FACTORY: Final = object()
"""The default of a parameter whose value a factory makes."""


def _made(cls: type[Any], *, is_frozen: bool, kw_only: bool, eq: bool, is_hashed: bool) -> type:
    own = frozenset(cls.__dict__)
    has_own_hash = cls.__dict__.get("__hash__") is not None  # Python sets None where a class has only its own __eq__
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else `dataclasses` asks for the signature, to show it
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    if any("InitVar" in str(field.type) for field in vars(cls)["__dataclass_fields__"].values()):
        raise TypeError(f"{cls.__name__} has an InitVar, which only the standard dataclass knows")
    methods: dict[str, Any] = {"__repr__": _repr}
    methods["__init__"] = _when_called(cls, "__init__", _frozen_init if is_frozen else _init)
    if eq:
        methods["__eq__"] = _when_called(cls, "__eq__", _eq)
    if is_frozen:
        methods["__setattr__"], methods["__delattr__"] = _refusals(cls)
        methods["__getstate__"], methods["__setstate__"] = _state, _restore
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    if not has_own_hash and (eq or is_hashed):
        cls.__hash__ = _when_called(cls, "__hash__", _hash) if is_hashed else None  # type: ignore[assignment]
    return cls


def _when_called(cls: type, name: str, compiled: Callable[[type], Method]) -> Method:
    """A method that puts the compiled one in its place when it is first called."""

    def first(self: Any, /, *arguments: Any, **named: Any) -> Any:
        method = compiled(cls)
        setattr(cls, name, method)
        return method(self, *arguments, **named)

    return first


def _compiled(cls: type, name: str, parameters: Iterable[str], body: Iterable[str], named: dict[str, Any]) -> Method:
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    exec(source, named)
    method: Method = named[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


def _init(cls: type) -> Method:
    return _compiled_init(cls, lambda field, value, _: f"_self.{field.name} = {value}")


def _frozen_init(cls: type) -> Method:
    def assignment(field: Field[Any], value: str, named: dict[str, Any]) -> str:
        named[f"_set_{field.name}"] = getattr(cls, field.name).__set__  # of the slot: `object.__setattr__` looks it up
        return f"_set_{field.name}(_self, {value})"

    return _compiled_init(cls, assignment)


def _compiled_init(cls: type, assignment: Callable[[Field[Any], str, dict[str, Any]], str]) -> Method:
    named: dict[str, Any] = {"_FACTORY": _FACTORY}
    parameters: list[str] = ["_self"]
    keywords: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(cls):
        value = _value_source(field, named)
        if field.init:
            (keywords if field.kw_only else parameters).append(field.name + _default_source(field, named))
        if value is not None:
            body.append(assignment(field, value, named))
    if hasattr(cls, "__post_init__"):
        body.append("_self.__post_init__()")
    if keywords:
        parameters += ["*", *keywords]
    return _compiled(cls, "__init__", parameters, body or ["pass"], named)


def _default_source(field: Field[Any], named: dict[str, Any]) -> str:
    """The text of a parameter's default, `=NAME` or nothing. The value of NAME is put into `named`, the function's globals."""
    if field.default is not MISSING:
        named[f"_default_{field.name}"] = field.default
        return f"=_default_{field.name}"
    return "" if field.default_factory is MISSING else "=_FACTORY"


def _value_source(field: Field[Any], named: dict[str, Any]) -> str | None:
    """The text of the attribute's value; None: it is not set. The values of its names are put into `named`, the function's globals."""
    if field.default_factory is not MISSING:
        named[f"_make_{field.name}"] = field.default_factory
        made = f"_make_{field.name}()"
        return f"{made} if {field.name} is _FACTORY else {field.name}" if field.init else made
    if field.init:
        return field.name
    if field.default is MISSING:
        return None
    named[f"_default_{field.name}"] = field.default
    return f"_default_{field.name}"


def _eq(cls: type) -> Method:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    body = (
        "if other.__class__ is self.__class__:",
        f"    return {_tuple_source('self', names)} == {_tuple_source('other', names)}",
        "return NotImplemented",
    )
    return _compiled(cls, "__eq__", ("self", "other"), body, {})


def _hash(cls: type) -> Method:
    names = [f.name for f in dataclasses.fields(cls) if (f.compare if f.hash is None else f.hash)]
    return _compiled(cls, "__hash__", ("self",), [f"return hash({_tuple_source('self', names)})"], {})


def _tuple_source(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refusals(cls: type[Any]) -> tuple[Method, Method]:
    """`__setattr__` and `__delattr__` of a frozen class."""

    def is_frozen(instance: Any, name: str) -> bool:
        return type(instance) is cls or any(field.name == name for field in dataclasses.fields(cls))

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if is_frozen(self, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if is_frozen(self, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return set_attribute, delete_attribute


def _state(self: Any) -> list[Any]:
    """For `copy` and `pickle`, which would set attributes of a frozen object."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
