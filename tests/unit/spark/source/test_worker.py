"""A worker does not read Spark's archives again for each task, and still imports from them, as from any others."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from bmq.spark.source.worker import forget_archives

pytestmark = pytest.mark.unit


def archive_of(path: Path, package: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package}/__init__.py", "")
        archive.writestr(f"{package}/one.py", "NUMBER = 1")
        archive.writestr(f"{package}/two.py", "NUMBER = 2")
    return path


def archives_known() -> set[str]:
    return {Path(one.archive).name for one in sys.path_importer_cache.values() if isinstance(one, zipimporter)}


def test_sparks_archives_are_forgotten_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"of_spark": "pyspark.zip", "of_gateway": "py4j-0.10.9.9-src.zip", "of_core": "spark-core_2.13-4.1.2.jar"}
    for package, name in {**theirs, "of_user": "mine.zip"}.items():
        monkeypatch.syspath_prepend(str(archive_of(tmp_path / name, package)))
        assert importlib.import_module(f"{package}.one").NUMBER == 1
    assert {*theirs.values(), "mine.zip"} <= archives_known()
    forget_archives()
    assert archives_known() & {*theirs.values(), "mine.zip"} == {"mine.zip"}
    importlib.invalidate_caches()
    for package in (*theirs, "of_user"):
        assert importlib.import_module(f"{package}.two").NUMBER == 2
