"""What a server makes of the environment that a container gets: the settings that count, or why it would not start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bmq.server.settings import Settings, load_settings, require_usable_addresses
from tools.container_image import configuration


def image_words(option: str) -> list[str]:
    """Values of one option of the image's configuration, like `env`."""
    prefix = f"--config.{option}="
    return [word.removeprefix(prefix) for word in configuration() if word.startswith(prefix)]


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in image_words("env"))


def started_with(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], *, is_node: bool, file: Path | None = None
) -> Settings:
    """Raises BadSettings, WrongInternodeSecurity, and AssertionError for a variable that no setting has."""
    given = {**image_environment(), **environment}
    with monkeypatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        loaded = load_settings({}, file)
    require_usable_addresses(loaded.settings, is_node=is_node)
    if is_node:
        loaded.settings.internode_security.mode_at([loaded.settings.internal, loaded.settings.internal_advertised])
    read = {origin.name for origin in loaded.origins if origin.source == "environment"}
    names = {name.removeprefix("BMQ_").lower().replace("__", ".") for name in given if name.startswith("BMQ_")}
    unread = {name for name in names if not any(one == name or one.startswith(f"{name}.") for one in read)}
    assert unread == set(), "variables that no setting has"
    return loaded.settings
