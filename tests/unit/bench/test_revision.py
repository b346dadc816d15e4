"""Figures are of one revision: anything that could change what is measured makes a tree dirty."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.revision import NotOneRevision, Revision, changed_paths, read_revision

pytestmark = pytest.mark.campaign("unit")


def test_whatever_may_be_measured_counts_as_a_change() -> None:
    said = " M bmq/log/index.py\0?? bmq/log/new.py\0R  bench/b.py\0bench/a.py\0 D docs/CONFIG.md\0"
    assert changed_paths(said) == ("bmq/log/index.py", "bmq/log/new.py", "bench/b.py", "bench/a.py", "docs/CONFIG.md")


def test_what_benchmarks_write_does_not() -> None:
    assert changed_paths(" M bench/results/standalone.json\0?? bench/results/hdfs.svg\0 M README.md\0") == ()
    assert changed_paths(" M docs/benchmarks/standalone.md\0") == ()
    assert changed_paths("") == ()
    assert changed_paths("?? bench/results.py\0") == ("bench/results.py",)


def test_a_dirty_tree_is_refused_in_a_sentence() -> None:
    Revision("abc").check_clean()
    assert str(Revision("abc", ("a.py",))) == "abc-dirty"
    many = Revision("abc", tuple(f"{name}.py" for name in "abcdefg"))
    with pytest.raises(
        NotOneRevision, match=r"differs from revision abc in a\.py, .*e\.py and 2 more: commit or remove"
    ):
        many.check_clean()


def test_a_tree_that_changes_under_a_run_is_noticed() -> None:
    Revision("abc").check_same(Revision("abc"))
    for later in (Revision("abd"), Revision("abc", ("a.py",))):
        with pytest.raises(NotOneRevision, match=f"was abc when the run began and {later} when it ended"):
            Revision("abc").check_same(later)


def test_the_revision_of_a_real_repository(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "kept.py").write_text("1")
    git("add", "kept.py")
    git("commit", "-q", "-m", "first")
    assert read_revision(tmp_path) == Revision(git("rev-parse", "--short=12", "HEAD"))
    (tmp_path / "kept.py").write_text("2")
    (tmp_path / "with space.py").write_text("3")
    assert read_revision(tmp_path).changes == ("kept.py", "with space.py")


def test_what_is_no_repository_has_no_revision(tmp_path: Path) -> None:
    with pytest.raises(NotOneRevision, match="cannot be read"):
        read_revision(tmp_path)
