"""Terms of groups are computed once, and again when the settings or the group's configs are others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bmq.protocol import group_terms_cache
from bmq.protocol.group_terms_cache import NO_CONFIGS, GroupTermsCache

pytestmark = pytest.mark.unit


def test_terms_follow_settings_and_configs() -> None:
    settings = ["first"]
    computed: list[tuple[str, Mapping[str, str]]] = []

    def terms_of(one: list[str], configs: Mapping[str, str]) -> str:
        computed.append((one[0], configs))
        return f"{one[0]} {configs.get('lock', '')}".strip()

    cache = GroupTermsCache(lambda: settings, terms_of)
    own = {"lock": "10"}
    assert [cache("g", own), cache("g", own), cache("h", NO_CONFIGS), cache("h", NO_CONFIGS)] == [
        *("first 10", "first 10", "first", "first")
    ]
    assert len(computed) == 2
    assert cache("g", {"lock": "20"}) == "first 20"
    settings = ["second"]
    assert cache("h", NO_CONFIGS) == "second"


def test_it_remembers_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_terms_cache, "TERMS_MAX", 3)
    computed: list[Mapping[str, str]] = []
    settings = object()

    def terms_of(_: object, configs: Mapping[str, str]) -> int:
        computed.append(configs)
        return len(computed)

    cache = GroupTermsCache(lambda: settings, terms_of)
    for number in range(10):
        cache(str(number), NO_CONFIGS)
    assert cache("9", NO_CONFIGS) == 10 and cache("0", NO_CONFIGS) == 11
