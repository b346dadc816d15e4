"""Settings of an agent, and what makes them unusable. docs/DATABUS.md has each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.databus.settings import AgentSettings, SettingsUnusable, load_settings
from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit


def file_of(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "databus.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_options_are_stronger_than_variables_and_these_than_the_file(tmp_path: Path) -> None:
    path = file_of(
        tmp_path, 'agent_id = "file"\nspool_dir = "/file"\nsocket = "/file"\n[kafka]\n"security.protocol" = "SSL"\n'
    )
    variables = {
        "BMQ_DATABUS_SPOOL_DIR": "/variable",
        "BMQ_DATABUS_SOCKET": "/variable",
        "BMQ_DATABUS_REST": "http://a, http://b",
    }
    settings = load_settings(path, variables, {"socket": "/option", "http": None})
    assert (settings.agent_id, settings.spool_dir, settings.socket) == ("file", "/variable", "/option")
    assert settings.rest == ["http://a", "http://b"]
    assert settings.kafka_config == {"security.protocol": "SSL", "bootstrap.servers": "127.0.0.1:9092"}


def test_the_agent_is_named_after_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "host-7")
    assert load_settings(None, {}, {}).agent_id == "host-7"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("spool_bytes_max = 5", "spool_bytes_max: "),
        ("sppol_dir = '/x'", "there is no key sppol_dir"),
        ("http = '0.0.0.0:80'", "http is open to other machines: set http_token_file, or use 127.0.0.1"),
        ("grpc = '0.0.0.0:80'", "grpc is open to other machines: set grpc_token_file, or use 127.0.0.1"),
        ("grpc = ':x'", "grpc: HOST:PORT or unix:PATH is wanted"),
        ("http = 'nonsense'", "http: HOST:PORT or unix:PATH is wanted"),
        ("http = ''\nsocket = ''", "the agent has no door: set socket, http or grpc"),
        ("agent_id = 'a b'", "agent_id: "),
        ("socket_mode = '999'", "socket_mode: "),
        ("rest_user = 'u'", "a REST login by password needs both a user and a password file"),
        ("{", "is no TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsUnusable) as found:
        load_settings(file_of(tmp_path, text), {}, {})
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)


def test_a_file_with_a_secret_is_private(tmp_path: Path) -> None:
    text = '[kafka]\n"sasl.password" = "hunter2"\n'
    path = file_of(tmp_path, text, 0o644)
    with pytest.raises(SettingsUnusable, match="chmod o=") as found:
        load_settings(path, {}, {})
    assert "hunter2" not in str(found.value)
    path.chmod(0o640)
    assert load_settings(path, {}, {}).kafka["sasl.password"] == "hunter2"


def test_a_secret_is_in_no_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsUnusable) as found:
        load_settings(file_of(tmp_path, '[kafka]\n"sasl.password" = ["hunter2"]\n'), {}, {})
    assert "hunter2" not in str(found.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsUnusable, match="cannot be read"):
        load_settings(tmp_path / "none", {}, {})


def test_the_page_has_each_setting_with_its_default() -> None:
    page = (REPOSITORY / "docs" / "DATABUS.md").read_text()
    for name, field in AgentSettings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = {"agent_id": "host name"}.get(name) or default_text(default)
        assert f"| `{name}` | {shown} | {field.description} |" in page, name


def default_text(default: object) -> str:
    if default in ("", {}):
        return "empty"
    if isinstance(default, list):
        return f"`{default[0]}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
