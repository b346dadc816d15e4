"""What is kept in the cache is whole, and made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.kept_files import cache_directory, kept_directory, key_of

pytestmark = pytest.mark.unit


def test_it_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(directory: Path) -> None:
        made.append(directory)
        (directory / "A.class").write_bytes(b"code")

    for _ in range(2):
        kept = kept_directory(tmp_path / "classes" / "1", make)
        assert [(path.name, path.read_bytes()) for path in kept.iterdir()] == [("A.class", b"code")]
    assert len(made) == 1
    assert [path.name for path in (tmp_path / "classes").iterdir()] == ["1"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise ValueError("it does not compile")

    with pytest.raises(ValueError, match="it does not compile"):
        kept_directory(tmp_path / "1", fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_make_it_at_once_the_first_is_kept(tmp_path: Path) -> None:
    def make(directory: Path) -> None:
        kept_directory(tmp_path / "1", lambda other: (other / "first").touch())
        (directory / "second").touch()

    kept = kept_directory(tmp_path / "1", make)
    assert [path.name for path in kept.iterdir()] == ["first"]
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_key_is_of_all_parts_in_their_order() -> None:
    keys = {key_of(parts) for parts in ([b"ab", b"c"], [b"a", b"bc"], [b"c", b"ab"], [b"abc"])}
    assert len(keys) == 4
    assert key_of([b"ab", b"c"]) in keys


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "bmq"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "bmq"
