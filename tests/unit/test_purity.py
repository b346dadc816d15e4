"""Modules that declare "Pure." or "Decisions only." reach no clock, dice, sockets, threads, processes or event loop.

Whole packages are named in the import contract of pyproject.toml instead; their modules need no declaration.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import grimp
import pytest

pytestmark = pytest.mark.unit

REPOSITORY: Final = Path(__file__).parents[2]
CONTRACT: Final = "Packages that only decide do no I/O, and read neither clock nor dice"
DECLARATION: Final = re.compile(r"(?:^|\s)(?:Pure|Decisions only)[.:; (]")


def forbidden() -> list[str]:
    """The modules that the import contract forbids to pure packages: one list for both."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    modules: list[str] = next(one["forbidden_modules"] for one in contracts if one["name"] == CONTRACT)
    return modules


def impure(graph: grimp.ImportGraph, modules: Iterable[str]) -> Iterator[str]:
    """For each module that reaches a forbidden one, by whatever chain: the chain."""
    # All that reach a target are found at once: to look for a chain from each module takes the most time.
    reaching = {name: graph.find_downstream_modules(name) for name in forbidden() if name in graph.modules}
    for module in sorted(modules):
        target = next((name for name, those in reaching.items() if module in those), None)
        if target is not None:
            chain = graph.find_shortest_chain(importer=module, imported=target)
            assert chain is not None
            yield " -> ".join(chain)


def declared() -> set[str]:
    found = set()
    for path in (REPOSITORY / "bmq").rglob("*.py"):
        source = path.read_text()
        # Most modules have no such words anywhere: they need not be read as Python.
        docstring = ast.get_docstring(ast.parse(source)) if DECLARATION.search(source) else None
        if docstring and DECLARATION.search(docstring):
            found.add(".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"))
    return found


def test_modules_that_declare_themselves_pure_are() -> None:
    graph = grimp.build_graph("bmq", include_external_packages=True, cache_dir=None)
    modules = declared()
    assert len(modules) > 150
    assert list(impure(graph, modules)) == []


@pytest.mark.parametrize("target", forbidden())
def test_an_import_through_others_counts(target: str) -> None:
    graph = grimp.ImportGraph()
    graph.add_import(importer="bmq.decides", imported="bmq.between")
    graph.add_import(importer="bmq.between", imported=target)
    graph.add_module("bmq.beside")
    assert list(impure(graph, {"bmq.decides", "bmq.beside"})) == [f"bmq.decides -> bmq.between -> {target}"]


@pytest.mark.parametrize(
    ("docstring", "is_declared"),
    [
        ("Moves. Decisions only.", True),
        ("Heartbeats.\nDecisions only (KIP-848).", True),
        ("Room for batches. Pure: the caller supplies memory.", True),
        ("Performs what the pure modules decide.", False),
        ("Paths. PurePath is what they are.", False),
    ],
)
def test_what_counts_as_a_declaration(docstring: str, is_declared: bool) -> None:
    assert bool(DECLARATION.search(docstring)) is is_declared
