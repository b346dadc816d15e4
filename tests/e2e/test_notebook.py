"""docs/first_table.ipynb runs as it stands, on a real server: from records to a table and a plot."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from testing.servers import BmqServer
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.bmq_only, pytest.mark.timeout(480)]

NOTEBOOK = REPOSITORY / "docs" / "first_table.ipynb"
COUNT = 2_000
BAD = COUNT // 100


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """The code cells, executed."""
    directory = tmp_path_factory.mktemp("notebook")
    server = BmqServer(directory / "server")
    try:
        server.start()
        yield [cell for cell in execute(server, directory)["cells"] if cell["cell_type"] == "code"]
        assert server.is_running
    finally:
        server.close()


def execute(server: BmqServer, directory: Path) -> dict[str, Any]:
    executed = directory / "executed.ipynb"
    environment = {
        **os.environ,
        **SPARK_ENVIRONMENT,
        # Whatever Jupyter and IPython keep, they keep here.
        **{name: str(directory / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")},
        "JUPYTER_CONFIG_DIR": str(directory / "jupyter"),
        "BMQ_BOOTSTRAP": server.bootstrap,
        "BMQ_REST_URL": f"http://127.0.0.1:{server.rest_port}",
        "BMQ_NOTEBOOK_DIRECTORY": str(directory / "data"),
    }
    # matplotlib lists the fonts when it is first imported, and warns about it where that takes longer than 5 s.
    subprocess.run(
        [sys.executable, "-c", "import matplotlib.font_manager"],
        check=True,
        timeout=Patience(120).limit_s,
        env=environment,
    )
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", "tests.e2e.notebook", str(NOTEBOOK), str(executed)]),
        capture_output=True,
        text=True,
        timeout=Patience(330).limit_s,
        check=False,
        cwd=REPOSITORY,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    document: dict[str, Any] = json.loads(executed.read_text())
    return document


def output_of(cells: list[dict[str, Any]], text: str, kind: str = "text/plain") -> str:
    """Of the one cell whose source has the text; its last output of this kind."""
    (cell,) = [cell for cell in cells if text in "".join(cell["source"])]
    found = [
        output["text"] if output["output_type"] == "stream" else output["data"][kind]
        for output in cell["outputs"]
        if output["output_type"] == "stream" or kind in output.get("data", {})
    ]
    return "".join(found[-1])


def test_the_table_has_every_record_and_the_cluster_knows(cells: list[dict[str, Any]]) -> None:
    assert output_of(cells, "producer.flush") == "0 records are not acknowledged\n"
    status = ast.literal_eval(output_of(cells, "/status"))
    assert status == {"rows": COUNT - BAD, "dead_letter_rows": BAD, "lag": 0}


def test_what_is_no_record_is_shown_with_its_reason(cells: list[dict[str, Any]]) -> None:
    shown = output_of(cells, "orders_dead_letter")
    assert shown.count("not an order") == 3
    assert "no JSON object" in shown


def test_duckdb_reads_every_row_without_bmq(cells: list[dict[str, Any]]) -> None:
    lines = output_of(cells, "duckdb.sql").splitlines()
    orders = {city: int(count) for city, count, _ in (line.split() for line in lines if len(line.split()) == 3)}
    assert orders.keys() == {"Lisbon", "Oslo", "Zagreb"}
    assert sum(orders.values()) == COUNT - BAD


def test_there_is_a_plot(cells: list[dict[str, Any]]) -> None:
    assert len(output_of(cells, "plt.show", "image/png")) > 5_000


def test_no_cell_warns(cells: list[dict[str, Any]]) -> None:
    """Spark's start aside, which the JVM comments on."""
    said = [
        "".join(output["text"])
        for cell in cells
        for output in cell["outputs"]
        if output.get("name") == "stderr" and "getOrCreate" not in "".join(cell["source"])
    ]
    assert said == []


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
