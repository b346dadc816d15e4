"""`bmq view`: make views of topics, and say what a filter does with a record."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from bmq.cli.kafka.completion import complete_topics
from bmq.cli.kafka.model import ConfigKind
from bmq.cli.kafka.options import DEFAULT_BOOTSTRAP, Bootstrap, DryRun, KafkaSettings, connected, settings_of
from bmq.metadata.view_configs import VIEW_FILTER, VIEW_OF
from bmq.spark.jobs.time_text import milliseconds
from bmq.views.record_fields import RecordFields
from bmq.views.view_filter import compiled

view_app = typer.Typer(
    no_args_is_help=True, help="Views: read-only topics that show the records of a topic that pass a filter."
)

Filter = Annotated[
    str | None,
    typer.Option("--filter", "-f", metavar="SQL", help="A condition: tag = 'paid' AND \"x-region\" LIKE 'eu%'"),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Records with one of these tags; may be repeated")
]


@view_app.command("create")
def create(
    context: typer.Context,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="Name of the view")],
    base: Annotated[str, typer.Option("--of", metavar="TOPIC", help="The topic whose records it shows")],
    condition: Filter = None,
    tags: Tags = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    is_dry_run: DryRun = False,
    kafka: KafkaSettings = None,
) -> None:
    """Create a view. With --dry-run the cluster checks everything and creates nothing."""
    text = _text_of(condition, tags)
    client = connected(context, bootstrap, kafka)
    client.create_topic(
        view, partitions=-1, replication=-1, configs={VIEW_OF: base, VIEW_FILTER: text}, is_dry_run=is_dry_run
    )
    sys.stdout.write(f"view {view} of {base} {'can be' if is_dry_run else 'was'} made, with {text}\n")


@view_app.command("explain")
def explain(
    context: typer.Context,
    view: Annotated[
        str | None,
        typer.Argument(metavar="[VIEW]", help="A view; none: --filter or --tag", autocompletion=complete_topics),
    ] = None,
    condition: Filter = None,
    tags: Tags = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of the record")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The record's key")] = None,
    at: Annotated[
        str | None,
        typer.Option("--time", metavar="TIME", help="The record's time: ms, 2026-11-24T10:00, or -2h [none]"),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
) -> None:
    """Say whether a record with these headers, key and time passes a view's filter."""
    if view is None:
        text = _text_of(condition, tags)
    else:
        configs = {one.name: one.value for one in connected(context, bootstrap, kafka).configs(ConfigKind.TOPIC, view)}
        text = configs.get(VIEW_FILTER) or ""
        if not text:
            raise typer.BadParameter(f"{view} is not a view", param_hint="VIEW")
    record = RecordFields(
        None if key is None else key.encode(),
        [(name.encode(), value.encode()) for name, value in settings_of(headers, "--header").items()],
        -1 if at is None else milliseconds(at, now_ms=time.time_ns() // 1_000_000),
        0,
        0,
    )
    passes = compiled(text).predicate(record)
    said = {True: "passes", False: "does not pass", None: "does not pass: the condition is unknown for it"}[passes]
    sys.stdout.write(f"filter  {text}\nrecord  {said}\n")


def _text_of(condition: str | None, tags: list[str] | None) -> str:
    """The filter that is asked for. Raises typer.BadParameter."""
    if (condition is None) == (not tags):
        raise typer.BadParameter("give either --filter or --tag", param_hint="--filter")
    if condition is None:
        quoted = ", ".join("'" + tag.replace("'", "''") + "'" for tag in tags or ())
        condition = f"tag IN ({quoted})"
    compiled(condition)  # the same sentence as the cluster's, before it is asked
    return condition
