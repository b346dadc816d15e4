"""Pages of the site that are made: the REST API from its OpenAPI document, the Python modules that documents tell users to import."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

METHODS: Final = ("get", "post", "put", "patch", "delete")
OPENAPI: Final = "reference/openapi.json"
REST_PAGE: Final = "reference/rest.md"
PYTHON_PAGE: Final = "reference/python.md"
MODULES: Final = (
    "bmq.spark.source",
    "bmq.spark.tables.job",
    "bmq.spark.jobs.backfill",
    "bmq.spark.jobs.mirror",
    "bmq.spark.jobs.find",
    "bmq.spark.jobs.stats",
    "bmq.spark.jobs.verify",
    "bmq.table_definitions.definition",
)
"""What SPARK.md, SPARK_JOBS.md and TABLES_JOB.md import. All else is internal."""


def rest_document() -> dict[str, Any]:
    """The OpenAPI document that every node serves at /openapi.json."""
    from prometheus_client import CollectorRegistry

    from bmq.admin.rest.application import RestSources, rest_application

    # No request is sent to it, so nothing of these is asked.
    sources = RestSources(lambda: False, lambda: None, dict, CollectorRegistry(), node_id=1)  # type: ignore[arg-type, return-value]
    return rest_application(sources).openapi()


def rest_page(document: Mapping[str, Any]) -> str:
    """A heading for each path, a line for each method and parameter. Pure."""
    lines = [
        "# REST API",
        "Every node serves this API at its REST address, and describes it at `/docs`, where requests can be tried, and at `/openapi.json`.",
        "[The document](openapi.json) is the same.",
        "",
    ]
    for path, operations in sorted(document["paths"].items()):
        lines += [f"## `{path}`", ""]
        for method in METHODS:
            if method in operations:
                lines += _operation(method, operations[method])
    return "\n".join(lines) + "\n"


def _operation(method: str, operation: Mapping[str, Any]) -> list[str]:
    lines = [f"**{method.upper()}** {operation.get('description') or operation.get('summary', '')}".strip(), ""]
    rows = [
        f"| `{each['name']}` | {each['in']} | {'yes' if each.get('required') else 'no'} | {_cell(each.get('description', ''))} |"
        for each in operation.get("parameters", ())
    ]
    if rows:
        lines += ["| parameter | in | required | meaning |", "|---|---|---|---|", *rows, ""]
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def python_page(modules: Sequence[str] = MODULES) -> str:
    """Pure."""
    head = "# Python modules\nThe modules that jobs and notebooks import. They need the extra `spark`. Other modules are internal and change without notice.\n"
    return head + "".join(f"\n## `{module}`\n::: {module}\n" for module in modules)


def made_pages() -> dict[str, str]:
    """Content by path within docs."""
    document = rest_document()
    return {
        OPENAPI: json.dumps(document, indent=1),
        REST_PAGE: rest_page(document),
        PYTHON_PAGE: python_page(),
    }
