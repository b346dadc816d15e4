"""The secrets of a server's settings and of the files they name are blanked in the lines that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.server.own_logs import OwnSecrets, own_logs
from bmq.server.redaction import HIDDEN
from bmq.server.settings import Settings

pytestmark = pytest.mark.unit


def test_secrets_of_settings_variables_and_files_are_blanked(tmp_path: Path) -> None:
    file = tmp_path / "one.secret"
    file.write_text("of-the-file\nnot a secret\n")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ops="of-the-setting";'
    settings = Settings(kafka={"sasl.jaas.config": jaas, "some.password_file": str(file)})
    blanked = OwnSecrets(settings, {"MY_PASSWORD": "of-the-variable", "PATH": "/bin"}).blanked
    for secret in ("of-the-file", "of-the-setting", "of-the-variable"):
        assert blanked(f"it was {secret} here") == f"it was {HIDDEN} here"
    assert blanked("not a secret of /bin") == "not a secret of /bin"


def test_files_are_read_at_the_first_text_alone(tmp_path: Path) -> None:
    file = tmp_path / "one.secret"
    file.write_text("first-secret")
    secrets = OwnSecrets(Settings(kafka={"some.password_file": str(file)}), {})
    assert secrets.blanked("first-secret") == HIDDEN
    file.write_text("second-secret")
    assert secrets.blanked("first-secret second-secret") == f"{HIDDEN} second-secret"


def test_the_lines_of_a_process_are_read_without_its_secrets() -> None:
    recent = own_logs(Settings(kafka={"ssl.key.password": "of-the-key"}), lambda: 1).recent
    recent.keep('{"event": "e", "why": "of-the-key"}')
    (line,) = recent.lines()
    assert recent.redact(line.text) == f'{{"event": "e", "why": "{HIDDEN}"}}'
