"""What is set on either side of these loads, and where the default is measured."""

from __future__ import annotations

from typing import Final

from bench.cluster import tuning
from bench.runner import Setting

# As in the benchmark of clusters, of which throughput's variants measure the defaults.
_OF_THE_CLUSTER: Final = ("scheduling of its nodes", "heap and collector of NameNode and DataNodes", "JVM")
_THERE: Final = "bench.cluster, throughput: one run each"

SETTINGS: Final = (
    *(
        Setting(one.of, one.what, one.value, one.default, one.measured if one.measured == "nothing is set" else _THERE)
        for one in tuning.SETTINGS
        if one.what in _OF_THE_CLUSTER
    ),
)
