"""How clients of REST log in: which source counts, which files are refused, and that no sentence has a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from bmq.rest_client.login import LoginUnusable, RestLogin, login_of

pytestmark = pytest.mark.unit


def secret(directory: Path, name: str, text: str, mode: int = 0o600) -> str:
    path = directory / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_options_are_stronger_than_variables_and_these_than_the_file(tmp_path: Path) -> None:
    file = secret(tmp_path, "rest.toml", 'ca_file = "of-file"\nuser = "alice"\npassword_file = "of-alice"\n')
    variables = {"BMQ_REST_CONFIG": file}
    assert login_of({}, variables) == RestLogin(ca_file="of-file", user="alice", password_file="of-alice")
    variables["BMQ_REST_TOKEN_FILE"] = "of-variable"
    assert login_of({}, variables) == RestLogin(ca_file="of-file", token_file="of-variable")
    options = {"ca_file": "of-option", "user": "bob", "password_file": "of-bob", "token_file": None}
    assert login_of(options, variables) == RestLogin(ca_file="of-option", user="bob", password_file="of-bob")
    assert login_of({"config": None}, {}) == RestLogin()
    assert login_of({"config": file}, {}).user == "alice"


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (RestLogin(user="alice"), "needs both a user and a password file"),
        (RestLogin(password_file="f"), "needs both a user and a password file"),
        (RestLogin(user="alice", password_file="f", token_file="t"), "not by both"),
        (RestLogin(user="a:b", password_file="f"), "colon"),
    ],
)
def test_parts_that_do_not_fit_are_refused(login: RestLogin, why: str) -> None:
    with pytest.raises(LoginUnusable, match=why):
        login.check()


def test_the_first_line_is_the_secret(tmp_path: Path) -> None:
    assert RestLogin(password_file=secret(tmp_path, "p", "pass wörd\r\nmore")).password() == "pass wörd"
    assert RestLogin(token_file=secret(tmp_path, "t", "bmq_1_a\n")).token() == "bmq_1_a"


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("geheim", 0o604, "is open to every user of this machine: chmod o= "),
        ("", 0o600, "begins with an empty line"),
        ("geheim geheim", 0o600, "has no bearer token in its first line"),
        ("geheim\x00", 0o600, "has no bearer token in its first line"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_sentence_without_its_secret(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(LoginUnusable) as refused:
        RestLogin(token_file=secret(tmp_path, "t", text, mode)).token()
    assert why in str(refused.value)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("password = 'geheim'", "has 'password', and may have ca_file, "),
        ("user = 1", "user has to be a text"),
        ("user = ", "is no TOML"),
    ],
)
def test_a_file_of_another_form_is_a_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(LoginUnusable) as refused:
        login_of({"config": secret(tmp_path, "rest.toml", text)}, {})
    assert why in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    mine = secret(tmp_path, "me.pem", authority.issue_cert("a@b").private_key_and_cert_chain_pem.bytes().decode())
    assert RestLogin().context() is None
    assert RestLogin(ca_file=str(tmp_path / "ca.pem"), certificate_file=mine).context() is not None
    wrong = secret(tmp_path, "wrong.pem", "nothing")
    for login, why in (
        (RestLogin(ca_file=wrong), "the CA file .* cannot be used"),
        (RestLogin(ca_file="/nowhere"), "No such file"),
        (RestLogin(certificate_file=wrong), "cannot be used as private key and certificate"),
        (RestLogin(certificate_file=str(tmp_path / "ca.pem")), "is open to every user|cannot be used as"),
    ):
        with pytest.raises(LoginUnusable, match=why):
            login.context()
