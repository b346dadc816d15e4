"""Settings of the gateway: each is documented, and comes from its variable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from bmq.gateway.settings import GatewaySettings

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[3] / "docs" / "GATEWAY.md"


def test_the_page_has_every_setting_and_its_default() -> None:
    text = PAGE.read_text().partition("\n## Settings\n")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", text, re.MULTILINE))
    defaults = {name: field.default for name, field in GatewaySettings.model_fields.items()}
    assert rows == {name: "none" if one in (None, "") else f"`{one}`" for name, one in defaults.items()}


def test_a_variable_sets_it_and_an_argument_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMQ_GATEWAY_STREAMS_MAX", "7")
    monkeypatch.setenv("BMQ_GATEWAY_LISTEN", "127.0.0.1:1")
    settings = GatewaySettings(listen="127.0.0.1:2")
    assert (settings.streams_max, settings.listen) == (7, "127.0.0.1:2")
    monkeypatch.setenv("BMQ_GATEWAY_STREAMS_MAX", "0")
    with pytest.raises(ValidationError):
        GatewaySettings()
