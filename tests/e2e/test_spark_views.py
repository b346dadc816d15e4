"""Views on Spark: the stock connector and format("bmq") read the records that pass, in batches and in streams; jobs read views."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from testing.servers import BmqServer, Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.e2e.test_views import make_view, produce, read_to_the_end
from tests.support.spark import SPARK_ARGUMENTS, SPARK_ENVIRONMENT

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


def test_jobs_read_views_and_those_of_files_name_the_base(
    server: BmqServer, make_topic: TopicMaker, tmp_path: Path
) -> None:
    base, target, prefix = make_topic(), unique_name("copied"), unique_name("mirrored")
    tags = "abcab" * 30 + "ccc"
    produce(server.bootstrap, base, tags, **{"compression.type": "lz4"})
    view = make_view(server.bootstrap, base, "tag = 'a'")
    expected = [b"%d" % place for place, tag in enumerate(tags) if tag == "a"]
    rest = f"http://127.0.0.1:{server.rest_port}"
    common = ("--bootstrap", server.bootstrap, "--json")
    mirror = ("--target", server.bootstrap, "--prefix", prefix, "--name", prefix, "--groups", "", "--once")
    commands = [
        ["stats", view, *common],
        ["find", view, *common, "--header", "bmq-tag=a", "--limit", "10000"],
        ["find", view, *common, "--header", "bmq-tag=b"],
        ["backfill", view, target, *common],
        ["mirror", view, *mirror, *common],
        ["verify", view, *common],
        ["compact", view, *common, "--rest", rest],
    ]
    done = run_jobs(commands)
    stats, found, nothing, backfilled, mirrored, verified, compacted = done
    assert [one["exit_code"] for one in done] == [0, 0, 4, 0, 0, 1, 1], done
    counted = json.loads(stats["out"])
    assert counted["total"]["records"] == len(expected)
    assert counted["topics"][0]["partitions"][0]["codecs"] == {}, "a view has no segments"
    assert [record["offset"] for record in json.loads(found["out"])] == [int(value) for value in expected]
    assert json.loads(nothing["out"]) == []
    assert f"{view!r} is a view, which has no files: its records are in those of {base!r}" in verified["err"]
    assert f"{view} is a view, which has no log: compact {base}" in compacted["err"]
    assert json.loads(backfilled["out"])["offsets"] == json.loads(mirrored["out"])["offsets"] == len(tags)
    for copy in (target, prefix + view):
        assert [
            message.value() for message in read_to_the_end(server.bootstrap, copy, unique_name("group"))
        ] == expected


def run_jobs(commands: list[list[str]]) -> list[dict[str, Any]]:
    """Each command's exit code and words."""
    everything = json.dumps([[*each, *SPARK_ARGUMENTS] for each in commands])
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", "tests.e2e.spark_commands", everything]),
        capture_output=True,
        text=True,
        timeout=Patience(500).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["commands"]
    return results
