"""The class archive: made of what daemons listed, put in place as a whole, and never in the way when it cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.dev.class_archive import ClassArchive
from tests.unit.dev.plans import make_jars, make_java

pytestmark = pytest.mark.unit

# Writes the list it was given where the archive is to be, as far as a JVM's dump is concerned.
DUMP = """#!/bin/sh
for argument; do case "$argument" in
    -XX:SharedClassListFile=*) list=${argument#*=} ;;
    -XX:SharedArchiveFile=*) archive=${argument#*=} ;;
esac; done
cp "$list" "$archive"
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_java(tmp_path, monkeypatch)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    return make_jars(tmp_path)


def class_lists(directory: Path) -> list[Path]:
    first, second = directory / "first.txt", directory / "second.txt"
    first.write_text("# a comment\njava/lang/Object\norg/apache/First\n")
    second.write_text("# a comment\njava/lang/Object\norg/apache/Second\norg/apa")
    return [first, second]


def archives(jars: Path) -> list[Path]:
    return [path for path in jars.iterdir() if path.name.startswith("classes")]


async def test_it_holds_each_class_of_all_lists_once_and_no_cut_line(tmp_path: Path, java: Path, jars: Path) -> None:
    java.write_text(DUMP)
    archive = ClassArchive(jars, ["-Xint"])
    assert not archive.is_there
    await archive.make(class_lists(tmp_path), tmp_path)
    assert archives(jars) == [archive.path]
    assert archive.path.read_text().splitlines() == [
        "# a comment",
        "java/lang/Object",
        "org/apache/First",
        "org/apache/Second",
    ]


@pytest.mark.usefixtures("java")
async def test_a_dump_that_fails_leaves_nothing_and_hurts_nobody(
    tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = ClassArchive(jars, [])
    await archive.make(class_lists(tmp_path), tmp_path)
    assert archives(jars) == []
    assert "no JVM today" in capsys.readouterr().out


@pytest.mark.usefixtures("java")
async def test_a_list_that_is_missing_hurts_nobody(tmp_path: Path, jars: Path) -> None:
    await ClassArchive(jars, []).make([tmp_path / "absent.txt"], tmp_path)
    assert archives(jars) == []


def test_another_java_other_jars_or_other_options_have_another_archive(java: Path, jars: Path) -> None:
    paths = [ClassArchive(jars, []).path, ClassArchive(jars, ["-Xint"]).path]
    (jars / "a.jar").write_text("longer")
    paths.append(ClassArchive(jars, []).path)
    (jars / "c.jar").write_text("")
    paths.append(ClassArchive(jars, []).path)
    replaced = java.with_name("other")
    replaced.write_text(DUMP)
    replaced.chmod(0o755)
    java.unlink()
    java.symlink_to(replaced)
    paths.append(ClassArchive(jars, []).path)
    assert len(set(paths)) == len(paths)
