"""Channels for tests: a small one, and a strategy that makes any."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bmq.channels.channel import CHANNEL_NAME, Acks, Channel, Compression, SpoolFull, parse_channel

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def channel(**changed: Any) -> Channel:
    """The channel `clicks`, with these keys changed."""
    return parse_channel({"name": "clicks", "topic": "shop.clicks", **changed})


def channels() -> st.SearchStrategy[Channel]:
    keys: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.just({"by": "none"}),
        st.fixed_dictionaries({"by": st.just("header"), "header": WORDS}),
        st.fixed_dictionaries({"by": st.just("json_path"), "path": st.lists(WORDS, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"by": st.just("constant"), "constant": WORDS}),
    )
    checks = st.sampled_from(
        [
            {},
            {"schema_check": "json"},
            {"schema_check": "json_schema", "json_schema": '{"type": "object"}'},
        ]
    )
    forms = st.fixed_dictionaries(
        {
            "name": st.from_regex(CHANNEL_NAME, fullmatch=True).filter(lambda name: name not in ("agents", "changes")),
            "topic": st.sampled_from(["a", "shop.clicks", "A-b_c.9"]),
            "key": keys,
            "compression": st.sampled_from(list(Compression)),
            "linger_ms": st.integers(0, 60_000),
            "acks": st.sampled_from(list(Acks)),
            "sampling_rate": st.floats(0, 1),
            "rate_limit_records_per_s": st.none() | st.integers(1, 2**53),
            "spool_full": st.sampled_from(list(SpoolFull)),
            "enabled": st.booleans(),
        }
    )
    return st.builds(lambda form, check: parse_channel({**form, **check}), forms, checks)
