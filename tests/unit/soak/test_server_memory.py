"""A soak's server may fill its caches, and grows in nothing else."""

from __future__ import annotations

import pytest

from tests.soak.memory import figures, growth_problems
from tests.soak.server import MIB, cached_mib_of

pytestmark = pytest.mark.unit

METRICS = f"""# HELP bmq_read_cache_bytes Bytes of segment files in memory.
# TYPE bmq_read_cache_bytes gauge
bmq_read_cache_bytes {3.0 * MIB}
bmq_read_cache_max_bytes {9e9}
bmq_tail_cache_bytes {2.5e0 * MIB}
bmq_view_cache_bytes 0.0
"""


def test_what_caches_hold_is_read_from_the_metrics() -> None:
    assert cached_mib_of(METRICS) == 5.5
    assert cached_mib_of(METRICS.replace(str(3.0 * MIB), "2.68435456e+08")) == 258.5


def test_a_server_that_does_not_say_what_its_caches_hold_gives_no_sample() -> None:
    assert cached_mib_of(METRICS.replace("bmq_tail_cache_bytes", "bmq_other_bytes")) is None


def test_growth_is_of_the_last_quarter_over_the_first() -> None:
    samples = [100.0] * 10 + [500.0] * 20 + [161.0] * 10
    assert figures(samples) == {"max": 500.0, "first_quarter": 100.0, "last_quarter": 161.0}
    assert growth_problems(samples, 40, 61) == []
    assert growth_problems(samples, 40, 60) == ["the server grew by 61 MiB beside its caches; 60 are allowed"]


def test_growth_that_was_hardly_seen_is_no_proof() -> None:
    assert growth_problems([100.0] * 4, 5, 60) == ["the server told the sizes of its caches 4 times, not 5"]
    assert figures([]) == {}
