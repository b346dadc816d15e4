"""The console's files: read once and at the first request, compressed alike everywhere."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bmq.console.assets import PAGE, Assets

pytestmark = pytest.mark.unit


def test_nothing_is_read_before_the_first_request(tmp_path: Path) -> None:
    assets = Assets(tmp_path)
    (tmp_path / "late.js").write_text("1;")
    assert not assets.is_loaded
    found = assets.named("late.js")
    assert found is not None and found.body == b"1;"
    assert assets.is_loaded
    (tmp_path / "late.js").write_text("2;")
    assert assets.named("late.js") is found, "it is read once"


def test_a_file_has_its_type_and_a_gzip_form(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("body { margin: 0 }" * 100)
    found, again = Assets(tmp_path).named("a.css"), Assets(tmp_path).named("a.css")
    assert found is not None
    assert found.content_type == "text/css; charset=utf-8"
    assert gzip.decompress(found.gzipped) == found.body
    assert len(found.gzipped) < len(found.body)
    assert found == again, "all nodes send the same bytes under the same ETag"


@pytest.mark.parametrize("name", ["", "secret.txt", "../outside.js", "/etc/passwd", "sub/inner.js", "a.css\x00"])
def test_only_files_of_the_directory_with_a_known_type_are_served(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "static"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "inner.js").write_text("1;")
    (directory / "secret.txt").write_text("no")
    (tmp_path / "outside.js").write_text("1;")
    assert Assets(directory).named(name) is None


def test_the_package_has_the_page() -> None:
    found = Assets().named(PAGE)
    assert found is not None and found.body.startswith(b"<!DOCTYPE html>")
