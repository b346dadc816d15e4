"""Views on Spark: the stock connector and format("bmq") read the records that pass, in batches and in streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import TopicMaker
from tests.e2e.test_views import make_view, produce
from tests.support.patience import Patience
from tests.support.processes import REPOSITORY, dying_with_us
from tests.support.servers import Server
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(600)]


@pytest.mark.spark
def test_the_connector_and_our_format_read_a_view(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    base = make_topic()
    tags = "abcab" * 30 + "ccc"
    for codec in ("none", "zstd"):
        produce(server.bootstrap, base, tags, **{"compression.type": codec})
    view = make_view(server.bootstrap, base, "tag = 'a'")
    expected = [number * len(tags) + place for number in range(2) for place, tag in enumerate(tags) if tag == "a"]
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", "tests.e2e.spark_views_job", str(tmp_path), server.bootstrap, view]),
        capture_output=True,
        text=True,
        timeout=Patience(300).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == dict.fromkeys(("kafka", "bmq", "kafka stream", "bmq stream"), expected)
