"""`bmq support-bundle`: one file for those who help, without secrets, also while a node hangs."""

from __future__ import annotations

import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import Annotated

import typer

from bmq.cli import cluster_client
from bmq.cli.daemon_threads import run_with_daemon_threads
from bmq.cli.doctor.command import RestUrl, ZooKeeperHosts
from bmq.cli.doctor.examination import Examination, Subject
from bmq.cli.doctor.finding import bytes_text
from bmq.cli.doctor.machine import Machine
from bmq.cli.rest_options import DEFAULT_URL, current_login, with_login
from bmq.cli.setting_options import ConfigFile, Data, StoreUrl, load
from bmq.cli.support_bundle.archive import Contents, new_archive
from bmq.cli.support_bundle.collection import Wanted, collect, known_secrets
from bmq.server.logs import configure_logs
from bmq.server.redaction import Redactor
from bmq.server.settings import BadSettings, LoadedSettings

support_bundle_app = typer.Typer()


@support_bundle_app.command("support-bundle")
@with_login
def support_bundle(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The file to make [./bmq-support-HOST-TIME.tar.gz]"),
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="A log whose last MiB goes in; may be repeated"),
    ] = None,
    rest: RestUrl = "",
    zookeeper: ZooKeeperHosts = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Write a tar.gz for support: settings, versions, REST pages, logs, doctor. Secrets are blanked.

    Works while a node hangs: contents.json in it says what could not be had. Ends within 60 s, 64 MiB at most.
    """
    configure_logs("error", "auto")
    loaded: LoadedSettings | None = None
    wrong, url = "", rest or DEFAULT_URL
    examination = None
    login = current_login()
    try:
        loaded = load(config, zookeeper=zookeeper, data=data, store=store)
    except BadSettings as error:
        wrong = str(error)
    else:
        # A bundle writes nothing to the store of a cluster in trouble; `bmq doctor` measures appends.
        subject = Subject(settings=loaded.settings, rest=rest, login=login, has_append_probe=False)
        url = subject.rest_url
        examination = Examination(subject, Machine(), SystemRandom(), cluster_client.TRANSPORT)
    url = url if "://" in url else f"http://{url}"
    redactor = Redactor(known_secrets(loaded, login))
    wanted = Wanted(loaded, wrong, url, login, logs or (), examination)
    path = out or _default_path()
    with new_archive(path, redactor.text) as archive:
        run_with_daemon_threads(collect(archive, wanted, cluster_client.TRANSPORT))
    _print_summary(path, archive.contents)


def _default_path() -> Path:
    host = "".join(each if each.isalnum() or each == "-" else "_" for each in socket.gethostname())[:64]
    return Path(f"bmq-support-{host}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")


def _print_summary(path: Path, found: Contents) -> None:
    for name, why in found.missing.items():
        sys.stderr.write(f"missing: {name}: {why}\n")
    size = bytes_text(path.stat().st_size)
    sys.stdout.write(f"{path} ({size}, {len(found.entries)} files); look through it before you send it\n")
