"""A release's tag names the version of the package."""

from __future__ import annotations

import subprocess

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY
from tools.debian_package import version_of
from tools.release_tags import tag_problem

pytestmark = pytest.mark.unit


def tags(option: str) -> list[str]:
    words = ["git", "-C", str(REPOSITORY), "tag", option, "HEAD"]
    return subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=Patience(30).limit_s
    ).stdout.split()


def test_the_tags_of_this_tree_name_its_version() -> None:
    assert tag_problem(version_of(REPOSITORY), tags("--points-at"), tags("--merged")) == ""


@pytest.mark.parametrize(
    ("here", "reached"),
    [([], []), (["v1.2.0"], ["v1.2.0", "v1.1.0"]), (["nightly"], ["nightly"]), ([], ["v1.2.0", "v1.1.9"])],
)
def test_trees_without_tags_releases_and_what_follows_them_are_fine(here: list[str], reached: list[str]) -> None:
    assert tag_problem("1.2.0", here, reached) == ""


@pytest.mark.parametrize(
    ("version", "here", "reached", "problem"),
    [
        ("1.2.0", ["v1.3.0"], ["v1.3.0"], "the tag v1.3.0 is at a commit whose version is 1.2.0"),
        ("1.9.0", [], ["v1.10.0"], "the version 1.9.0 is older than the release 1.10.0"),
        ("1.2", [], [], "the version 1.2 is not of the form 1.2.3"),
    ],
)
def test_contradictions_are_found(version: str, here: list[str], reached: list[str], problem: str) -> None:
    assert tag_problem(version, here, reached) == problem
