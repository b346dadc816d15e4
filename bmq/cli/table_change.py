"""Changes of tables through the REST API: what would be done is shown and asked about first."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

from bmq.cli.cluster_client import ClusterClient, ClusterRefused
from bmq.cli.terminal import is_terminal, print_json

_NO_SUCH_PAGE: Final = "Not Found"


@contextmanager
def table_cluster(rest: str) -> Iterator[ClusterClient]:
    with ClusterClient(rest) as client:
        try:
            yield client
        except ClusterRefused as error:
            if str(error) != _NO_SUCH_PAGE:
                raise
            raise ClusterRefused(
                "the node that has to answer is of a release without tables; upgrade the nodes first"
            ) from error


def change_table(
    method: str, path: str, body: str | None, rest: str, is_dry_run: bool, is_sure: bool, as_json: bool
) -> None:
    form = None if body is None else json.loads(body)
    with table_cluster(rest) as client:
        is_asked = not is_sure and not as_json and is_terminal()
        if is_dry_run or is_asked:
            print_change(client.change(method, path, form, is_dry_run=True), as_json)
            if is_dry_run:
                return
            typer.confirm("Go ahead?", abort=True)
        change = client.change(method, path, form)
        if not is_asked:
            print_change(change, as_json)


def print_change(change: Any, as_json: bool) -> None:
    if as_json:
        print_json(change)
        return
    sys.stdout.write(f"{change['summary']}\n")
    for each in change["changes"]:
        sys.stdout.write(f"  {each}\n")
