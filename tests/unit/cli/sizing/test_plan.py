"""`bmq plan`: the arithmetic, and that its figures are those of the benchmarks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.cli.sizing.command import hours, size_bytes
from bmq.cli.sizing.figures import ALL_FIGURES, Figure
from bmq.cli.sizing.plan import GIB, MIB, TIB, Load, Machines, plan
from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit

LOAD = Load(records_s=50_000, record_bytes=1_024, retention_hours=168, partitions=300, groups=2)


def values(load: Load = LOAD, machines: Machines | None = None) -> dict[str, float]:
    return {step.name: step.value for step in plan(load, machines or Machines())}


@pytest.mark.parametrize("figure", ALL_FIGURES, ids=lambda figure: figure.row)
def test_the_figures_are_those_of_the_pages(figure: Figure) -> None:
    page = (REPOSITORY / "docs" / "benchmarks" / f"{figure.page}.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith(f"| {figure.row} |")]
    assert [float(row[2].replace(",", "")) for row in rows] == [figure.value]


def test_traffic_disk_and_objects() -> None:
    found = values()
    assert found["produced"] == 51_200_000
    assert found["consumed"] == 102_400_000
    assert found["kept"] == 51_200_000 * 168 * 3_600
    assert found["disk"] == found["kept"] * 3 + 300 * 128 * MIB * 3
    segments = -(-found["kept"] // (128 * MIB))
    assert found["objects"] == 300 * 7 + segments * 4
    assert found["heap"] == GIB, "the least"
    assert found["DataNodes"] == 13
    assert found["disk of a DataNode"] == pytest.approx(found["disk"] / 13)


def test_processor_time_is_that_of_the_measured_sizes() -> None:
    assert values()["processor for produces"] == pytest.approx(51.2 / 318)
    small = values(replace(LOAD, record_bytes=100))["processor for produces"]
    assert small == pytest.approx(50_000 / 1_589_788)
    assert values(replace(LOAD, record_bytes=1))["processor for produces"] == pytest.approx(small)
    between = values(replace(LOAD, record_bytes=562))["processor for produces"]
    assert small < between < 51.2 / 318
    assert values()["processor for writing to HDFS"] == pytest.approx(0.0512 * 1.23)
    assert values(replace(LOAD, replication=1))["processor for writing to HDFS"] == pytest.approx(0.0512 * 1.23 / 3)
    assert values()["processor for fetches"] == pytest.approx(102.4 / 2_648)


def test_what_decides_the_number_of_machines() -> None:
    assert (values()["processes"], values()["machines"]) == (1, 3), "a small load has two machines and a spare one"
    assert values(replace(LOAD, partitions=10_000))["processes"] == 10
    heavy = values(replace(LOAD, records_s=5_000_000))
    assert heavy["processes"] == 53
    assert heavy["machines"] == max(-(-53 // 8), -(-5_120 * 5 // 625)) + 1
    assert values(replace(LOAD, records_s=5_000_000), Machines(network_bits_s=100e9))["machines"] == 8


def test_every_step_shows_its_numbers() -> None:
    steps = plan(LOAD, Machines())
    assert all(step.how for step in steps)
    assert {step.part for step in steps} == {"traffic", "nodes", "HDFS", "NameNode"}
    assert next(step.how for step in steps if step.name == "produced") == "50,000 records/s x 1,024 B"
    sources = {source for step in steps for source in step.source.split("; ") if source}
    assert sources == {figure.source for figure in ALL_FIGURES}


@pytest.mark.parametrize(
    "change", [{"records_s": 0}, {"record_bytes": -1}, {"retention_hours": 1e9}, {"partitions": 0}, {"groups": -1}]
)
def test_a_load_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"ha(s|ve) to be"):
        plan(replace(LOAD, **change), Machines())  # type: ignore[arg-type]


def test_sizes_and_times() -> None:
    assert [size_bytes(text) for text in ("512", "1KiB", "1kb", "128M", "1.5 GiB")] == [
        512,
        1024,
        1024,
        128 * MIB,
        3 * GIB // 2,
    ]
    assert size_bytes("10TiB") == 10 * TIB
    assert [hours(text) for text in ("12h", "7d", "1.5w")] == [12, 168, 252]
    for wrong in ("", "x", "-1", "1XB"):
        with pytest.raises(typer.BadParameter):
            size_bytes(wrong)
    with pytest.raises(typer.BadParameter):
        hours("7")


def test_the_command() -> None:
    given = ["plan", "-r", "50000", "-s", "1KiB", "--retention", "7d", "-p", "300", "-g", "2"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "docs/benchmarks/core.md, `produce 1 KiB, per CPU second, MB`" in result.stdout
    assert "48.83 MiB/s" in result.stdout
    document = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert {step["name"]: step["value"] for step in document["steps"]} == values()
    refused = CliRunner().invoke(app, ["plan", "-r", "0", "-s", "1KiB", "--retention", "7d", "-p", "300"])
    assert refused.exit_code == 2
    assert "records/s has to be above 0" in refused.stderr
