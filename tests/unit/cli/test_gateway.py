"""`bmq gateway run`: what stops it before it listens is one sentence."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from bmq.cli.commands import app

pytestmark = pytest.mark.unit


def failure(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["gateway", "run", *arguments])
    assert result.exit_code == 1
    return str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "nowhere"], "the setting listen is 'nowhere', which is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "the setting listen is '127.0.0.1:99999', which is not HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--metrics", "9191"], "the setting metrics is '9191', which is not HOST:PORT"),
        (["--security-protocol", "TLS"], "the setting security_protocol of the gateway cannot be used"),
    ],
)
def test_settings_that_cannot_be_used(arguments: list[str], sentence: str) -> None:
    assert failure(*arguments).startswith(sentence)


def test_a_certificate_without_its_key(tmp_path: object) -> None:
    said = failure("--listen", "127.0.0.1:0", "--tls-certificate", f"{tmp_path}/tls.pem")
    assert said == "a certificate needs its key; set tls_certificate and tls_key"


def test_without_the_package_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("bmq.gateway.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    said = failure("--listen", "127.0.0.1:0")
    assert said.startswith("the gateway needs grpc: ")
    assert " -m pip install " in said
