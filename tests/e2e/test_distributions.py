"""The wheel and the source archive are ones that an index of packages takes, and have each file of the package."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from readme_renderer import markdown

from testing.processes import REPOSITORY
from tools.wheel_package import Distributions, build, require_acceptable

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(120)]

MADE = ("libbmqkernel.so", "libbmqkernel.so.sha256")


def tracked(*paths: str) -> list[str]:
    """Files that git knows of, or would take: a clone has no others."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(words, cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
    return [name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributions]:
    """Both, of a copy of the tree: a build in place would take the kernel away from servers for a moment."""
    directory = tmp_path_factory.mktemp("distributions")
    for name in tracked("bmq", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        target = directory / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, target)
    yield build(directory / "tree", directory / "dist", is_isolated=False)
    shutil.rmtree(directory)


def test_an_index_of_packages_takes_them(made: Distributions) -> None:
    require_acceptable(made)


def installed_names(wheel: Path) -> set[str]:
    """Names below the directory of packages. A wheel of one platform keeps modules in a directory of its own."""
    with zipfile.ZipFile(wheel) as archive:
        return {name.partition(".data/purelib/")[2] or name for name in archive.namelist()}


def test_the_wheel_has_each_file_of_the_package_and_the_kernel(made: Distributions) -> None:
    names = installed_names(made.wheel)
    assert set(tracked("bmq")) - names == set()
    assert {f"bmq/records/native/{name}" for name in MADE} - names == set()
    info = made.wheel.name.split("-py3-")[0] + ".dist-info"
    assert {name.split("/")[0] for name in names} == {"bmq", info}


def test_the_source_archive_has_no_made_file(made: Distributions) -> None:
    with tarfile.open(made.source) as archive:
        names = [Path(name).name for name in archive.getnames()]
    assert [name for name in names if name in MADE or "_pb2.py" in name] == []


def test_the_readme_is_rendered_with_its_table_and_commands() -> None:
    page = markdown.render((REPOSITORY / "README.md").read_text())
    assert page is not None
    assert "<table>" in page and "make run" in page
