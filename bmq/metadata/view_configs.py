"""The topic configs that make a topic a view: whose records it shows, and which of them. Pure.

They are set when the topic is created, and never changed: groups have committed offsets for what the view showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig
from bmq.views.view_filter import compiled

VIEW_OF: Final = "bmq.view.of"
VIEW_FILTER: Final = "bmq.view.filter"
VIEW_CONFIGS: Final = (
    ConfigKey(
        VIEW_OF,
        ConfigType.STRING,
        "",
        "Makes the topic a view: it has no log, and shows those records of this topic that pass bmq.view.filter, at their own "
        "offsets. Only when the topic is created.",
    ),
    ConfigKey(
        VIEW_FILTER,
        ConfigType.STRING,
        "",
        "Which records a view shows: a condition of SQL over tag, key, timestamp, offset, partition and headers, as in "
        "tag IN ('paid', 'sent') AND \"x-region\" = 'eu'. Only when the topic is created.",
    ),
)


def is_view(configs: Mapping[str, str]) -> bool:
    """Whether a topic with these configs is a view."""
    return bool(configs.get(VIEW_OF))


def validate_view(configs: Mapping[str, str]) -> None:
    """Whether a topic may have these configs, as far as they are about views. Raises InvalidConfig, InvalidFilter."""
    if not is_view(configs):
        if configs.get(VIEW_FILTER):
            raise InvalidConfig(f"{VIEW_FILTER} is about a view: {VIEW_OF} has to name the topic that it shows")
        return
    for name in configs:
        if name not in (VIEW_OF, VIEW_FILTER):
            raise InvalidConfig(f"A view has no log of its own: {name} is set for {configs[VIEW_OF]}")
    compiled(configs.get(VIEW_FILTER, ""))
