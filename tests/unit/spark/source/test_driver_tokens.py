"""Tokens that the processes of a driver share: which one a plan takes, when they are renewed, and who may read them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bmq.hdfs.delegation_token import DelegationToken
from bmq.spark.source.driver_tokens import DriverToken, TokenDirectory, TokenRenewer

pytestmark = pytest.mark.unit

ROOT = "hdfs://namenode:8020/bmq"
INTERVAL_S = 100.0
LIFE_S = 350.0
PRINCIPAL, KEYTAB = "bmq@R", "/k"


def made(made_s: float, name: bytes = b"first", root: str = ROOT) -> DriverToken:
    return DriverToken(
        root=root,
        principal=PRINCIPAL,
        keytab=KEYTAB,
        token=DelegationToken(name, b"\x00\xffpassword"),
        made_s=made_s,
        ends_s=made_s + INTERVAL_S,
        interval_s=INTERVAL_S,
    )


def newest(directory: TokenDirectory, now_s: float) -> DelegationToken | None:
    return directory.newest(ROOT, principal=PRINCIPAL, keytab=KEYTAB, now_s=now_s)


class NameNodes:
    """Renew as a NameNode does: for an interval from now on, and never beyond the end of the token's life."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.renewals: list[float] = []
        self.is_away = False

    def renew(self, one: DriverToken) -> float:
        if self.is_away:
            raise OSError("no route")
        assert self.now_s < one.ends_s
        self.renewals.append(self.now_s)
        return min(self.now_s + INTERVAL_S, one.made_s + LIFE_S)


def test_plans_share_a_token_for_a_quarter_of_its_interval(tmp_path: Path) -> None:
    directory = TokenDirectory(tmp_path)
    assert newest(directory, 1_000) is None
    directory.put(made(1_000))
    directory.put(made(1_010, b"second"))
    directory.put(made(1_020, b"elsewhere", "hdfs://other:8020/bmq"))
    assert newest(directory, 1_012) == DelegationToken(b"second", b"\x00\xffpassword")
    assert newest(directory, 1_034) == DelegationToken(b"second", b"\x00\xffpassword")
    assert newest(directory, 1_036) is None
    assert directory.newest(ROOT, principal=PRINCIPAL, keytab="/other", now_s=1_012) is None
    assert newest(directory, 900) is None, "the clock was set back: nobody knows how old it is"


def test_only_its_user_may_read_them(tmp_path: Path) -> None:
    TokenDirectory(tmp_path).put(made(1_000))
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_is_renewed_up_to_the_end_of_its_life(tmp_path: Path) -> None:
    directory, namenodes = TokenDirectory(tmp_path), NameNodes()
    renewer = TokenRenewer(directory, namenodes.renew, lambda: namenodes.now_s)
    directory.put(made(1_000))
    while namenodes.now_s < 1_000 + LIFE_S - 1:
        renewer.renew_due()
        ((_, one),) = directory.all()
        assert one.ends_s > namenodes.now_s
        namenodes.now_s += 5
    assert namenodes.renewals == [1_050, 1_100, 1_150, 1_200, 1_250, 1_300]
    namenodes.now_s = 1_000 + LIFE_S
    renewer.renew_due()
    assert directory.all() == []


def test_a_namenode_that_is_away_is_asked_again_and_said_once_a_minute(tmp_path: Path) -> None:
    directory, namenodes = TokenDirectory(tmp_path), NameNodes()
    renewer = TokenRenewer(directory, namenodes.renew, lambda: namenodes.now_s)
    directory.put(made(1_000))
    directory.put(made(1_000, b"second"))
    namenodes.is_away = True
    with capture_logs() as logs:
        for namenodes.now_s in (1_050.0, 1_055.0, 1_060.0):
            renewer.renew_due()
    assert [(line["event"], line["reason"]) for line in logs] == [("token_not_renewed", "no route")]
    namenodes.is_away = False
    renewer.renew_due()
    assert [one.ends_s for _, one in directory.all()] == [1_160.0, 1_160.0]


def test_what_is_no_token_is_passed_over(tmp_path: Path) -> None:
    directory = TokenDirectory(tmp_path)
    directory.put(made(1_000))
    for number, text in enumerate(("", "{", "[]", '{"token": {}}', '{"token": {"identifier": "?", "password": ""}}')):
        (tmp_path / f"{number}.token").write_text(text)
    (tmp_path / "unfinished.new").write_text("{}")
    assert [one.token.identifier for _, one in directory.all()] == [b"first"]


def test_a_directory_that_is_gone_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TokenDirectory(tmp_path / "gone").all() == []
    for named in ("", str(tmp_path / "gone")):
        monkeypatch.setenv("BMQ_SPARK_TOKENS", named)
        assert TokenDirectory.shared() is None
    monkeypatch.setenv("BMQ_SPARK_TOKENS", str(tmp_path))
    assert TokenDirectory.shared() is not None


def test_no_text_has_the_secrets() -> None:
    assert "password\\xff" not in repr(made(1_000)) and "first" not in repr(made(1_000))
