"""`bmq doctor`: what is wrong with this machine's node and with what it needs, each with what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from bmq.cli import cluster_client
from bmq.cli.daemon_threads import run_with_daemon_threads
from bmq.cli.doctor.examination import SETTINGS, Examination, Subject
from bmq.cli.doctor.finding import Finding, Verdict, error, exit_code
from bmq.cli.doctor.machine import Machine
from bmq.cli.kafka.rows import printable
from bmq.cli.rest_options import current_login, with_login
from bmq.cli.setting_options import ConfigFile, Data, StoreUrl, load
from bmq.cli.terminal import console, print_json
from bmq.server.logs import configure_logs
from bmq.server.settings import BadSettings

_STYLES = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.ERROR: "bold red",
    Verdict.NOT_APPLICABLE: "dim",
}

RestUrl = Annotated[
    str, typer.Option("--rest", metavar="URL", help="REST address of this machine's node [that of the settings]")
]
ZooKeeperHosts = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOSTS", help="ZooKeeper: HOST:PORT[,HOST:PORT] and a /CHROOT")
]
Append = Annotated[bool, typer.Option("--append/--no-append", help="Measure small appends to a temporary file on HDFS")]

doctor_app = typer.Typer()


@doctor_app.command("doctor")
@with_login
def doctor(
    rest: RestUrl = "",
    zookeeper: ZooKeeperHosts = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
    is_append_measured: Append = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Check this machine, its node, HDFS, ZooKeeper and the other nodes. Exit code 0: fine, 1: warnings, 2: errors.

    Reads the settings as a server does. Ends within 40 s, also when a service hangs.
    """
    configure_logs("error", "auto")  # what is wrong is in the findings
    given = {"zookeeper": zookeeper, "data": data, "store": store}
    findings = examined(config, given, rest=rest, has_append_probe=is_append_measured)
    if as_json:
        print_json(document(findings))
    else:
        print_findings(findings)
    if code := exit_code(findings):
        raise typer.Exit(code)


def examined(
    config: Path | None, given: dict[str, Any], *, rest: str = "", has_append_probe: bool = True
) -> list[Finding]:
    """The findings for the settings with these options. Settings that cannot be read are the only finding then.

    Raises LoginUnusable.
    """
    try:
        settings = load(config, **given).settings
    except BadSettings as wrong:
        return [error(SETTINGS, str(wrong), "correct it: a server does not start with these settings")]
    subject = Subject(settings=settings, rest=rest, login=current_login(), has_append_probe=has_append_probe)
    examination = Examination(subject, Machine(), SystemRandom(), cluster_client.TRANSPORT)
    return run_with_daemon_threads(examination.findings())


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    return {"exit_code": exit_code(findings), "findings": [finding.to_json() for finding in findings]}


def print_findings(findings: Sequence[Finding]) -> None:
    table = Table("check", "verdict", "seen, and what to do", box=None, pad_edge=False)
    for finding in findings:
        text = printable(finding.seen)
        if finding.to_do:
            text += f"\n  -> {printable(finding.to_do)}"
        verdict = Text(finding.verdict.value, style=_STYLES[finding.verdict])
        table.add_row(escape(finding.check), verdict, Text(text))
    console().print(table)
    counts = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
    sys.stdout.write(f"{counts[Verdict.ERROR]} errors, {counts[Verdict.WARNING]} warnings\n")
