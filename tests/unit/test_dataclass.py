"""The dataclass of bmq does what the standard one does, and compiles nothing before it is needed."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, field
from typing import Any, ClassVar

import pytest

from bmq import dataclass as module
from bmq.dataclass import dataclass

pytestmark = pytest.mark.unit

Decorator = Callable[..., Any]


def both(make: Callable[[Decorator], Any]) -> tuple[Any, Any]:
    """A class made by the standard decorator and the same made by ours."""
    return make(dataclasses.dataclass), make(dataclass)


def point(decorated: Decorator, **options: Any) -> Any:
    class Point:
        """A point."""

        KIND: ClassVar[str] = "point"
        x: int
        y: int = 2
        marks: list[str] = field(default_factory=list)
        cache: int = field(default=0, compare=False, repr=False)
        made: int = field(default=7, init=False)
        sums: list[int] = field(default_factory=lambda: [1], init=False, hash=False)

    return decorated(slots=True, **options)(Point)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"frozen": True},
    {"kw_only": True},
    {"frozen": True, "kw_only": True},
    {"eq": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_instances_are_made_shown_and_compared_as_of_the_standard_one(options: dict[str, Any]) -> None:
    shown: list[Any] = []
    for cls in both(lambda decorated: point(decorated, **options)):
        first, same, other = cls(x=1), cls(x=1, cache=9), cls(x=1, y=3, marks=["a"])
        assert first.marks is not same.marks
        shown.append((repr(first), repr(other), first == same, first == other, first == 1, dataclasses.asdict(other)))
        shown.append(
            (first.cache, first.made, first.sums, cls.__match_args__, cls.__slots__, hasattr(first, "__dict__"))
        )
        with pytest.raises(TypeError, match="missing 1 required") as missing:
            cls()
        with pytest.raises(TypeError, match="unexpected keyword") as unexpected:
            cls(x=1, made=3)
        shown.append((str(missing.value), str(unexpected.value)))
        shown.append(dataclasses.asdict(dataclasses.replace(other, y=8)))
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]


def test_positional_parameters_end_where_those_by_name_begin() -> None:
    def make(decorated: Decorator) -> Any:
        class Mixed:
            a: int
            b: int = field(kw_only=True)
            c: int = 3

        return decorated(slots=True)(Mixed)

    for cls in both(make):
        assert (cls(1, 2, b=5).c, cls(1, b=5).c) == (2, 3)
        with pytest.raises(TypeError, match="positional argument"):
            cls(1, 2, 3)


@dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, as `pickle` asks for it."""

    name: str
    number: int = 0


def test_a_frozen_object_is_not_changed_but_copied_and_hashed() -> None:
    kept = Kept("a", 1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        kept.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'more'"):
        kept.more = "b"  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del kept.name
    for other in (copy.copy(kept), copy.deepcopy(kept), pickle.loads(pickle.dumps(kept)), Kept("a", 1)):
        assert (other, hash(other)) == (kept, hash(kept))
        assert {kept: "found"}[other] == "found"
    assert kept != Kept("a", 2)


def test_a_mutable_object_is_changed_and_not_hashed_unless_that_is_wanted() -> None:
    def make(decorated: Decorator, **options: Any) -> Any:
        class Changing:
            a: int = 1

        return decorated(slots=True, **options)(Changing)

    for plain, hashed in zip(both(make), both(lambda decorated: make(decorated, unsafe_hash=True)), strict=True):
        changing = plain()
        changing.a = 5
        assert changing == plain(5)
        with pytest.raises(TypeError, match="unhashable"):
            hash(changing)
        assert hash(hashed(3)) == hash(hashed(3))


def test_what_a_class_defines_itself_stays() -> None:
    def make(decorated: Decorator) -> Any:
        class Own:
            a: int
            b: int = 0

            def __post_init__(self) -> None:
                object.__setattr__(self, "b", self.a + 1)

            def __repr__(self) -> str:
                return "own"

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Own)

            def __hash__(self) -> int:
                return 42

        return decorated(slots=True, frozen=True)(Own)

    for cls in both(make):
        assert (repr(cls(1)), hash(cls(1)), cls(1).b) == ("own", 42, 2)


def test_a_class_with_its_own_comparison_alone_is_hashed_by_its_fields_if_frozen() -> None:
    def make(decorated: Decorator) -> Any:
        class Own:
            a: int

            def __eq__(self, other: object) -> bool:
                return True

        return decorated(slots=True, frozen=True)(Own)

    for cls in both(make):
        assert hash(cls(1)) == hash(cls(1)) != hash(cls(2))


def test_a_derived_class_has_the_fields_of_its_base() -> None:
    def make(decorated: Decorator) -> Any:
        @decorated(slots=True, frozen=True)
        class Base:
            a: int

        @decorated(slots=True, frozen=True)
        class Derived(Base):
            b: int = 2

        return Base, Derived

    for base, derived in both(make):
        made = derived(1)
        assert (made.a, made.b, made == base(1), derived.__slots__) == (1, 2, False, ("b",))
        assert base(1) == base(1)
        with pytest.raises(FrozenInstanceError):
            made.a = 3


def test_a_class_derived_without_the_decorator_constructs_by_its_base() -> None:
    def make(decorated: Decorator) -> Any:
        @decorated(slots=True)
        class Base:
            a: int

        class Plain(Base):
            def __init__(self) -> None:
                super().__init__(4)  # type: ignore[call-arg]

        return Base, Plain

    for base, plain in both(make):
        assert (plain().a, base(5).a, plain() == plain()) == (4, 5, True)


def test_an_object_within_itself_is_shown() -> None:
    @dataclass(slots=True)
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_now = module._compiled

    def noted(cls: type, name: str, *rest: Any) -> Any:
        compiled.append(name)
        return compile_now(cls, name, *rest)

    monkeypatch.setattr(module, "_compiled", noted)

    @dataclass(frozen=True, slots=True)
    class Late:
        a: int

    assert compiled == []
    first, second = Late(1), Late(2)
    assert compiled == ["__init__"]
    assert first != second
    assert len({first, second, Late(1)}) == 2
    assert sorted(compiled) == ["__eq__", "__hash__", "__init__"]


def test_what_only_the_standard_one_knows_is_refused() -> None:
    class WithInitVar:
        a: InitVar[int]

    class WithDict:
        a: int

    with pytest.raises(TypeError, match="InitVar"):
        dataclass(slots=True)(WithInitVar)
    with pytest.raises(TypeError, match="slots"):
        dataclass(WithDict)
