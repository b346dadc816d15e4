"""`bmq metadata`: backups of a cluster's metadata, and their restore on another cluster."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import SystemRandom
from typing import Annotated

import typer

from bmq.cli.bounded_file import read_bounded
from bmq.cli.private_file import private_file
from bmq.cli.setting_options import ConfigFile, Data, StoreUrl, load
from bmq.log.root import cluster_id_from, read_root, require_empty_root
from bmq.metadata.backup_file import (
    BYTES_MAX,
    BackupUnusable,
    MetadataBackup,
    backup_of,
    decode_backup,
    encode_backup,
)
from bmq.metadata.image import MetadataImage
from bmq.metadata.stored_image import stored_state
from bmq.protocol.errors import BmqError
from bmq.server.logs import configure_logs
from bmq.server.settings import Settings
from bmq.server.stores import open_store, opened_beside

metadata_app = typer.Typer(
    no_args_is_help=True,
    help="Back up a cluster's metadata, with or without a server, and begin another cluster with it.",
)

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup")]


class BackupNotWritten(BmqError):
    """The file exists, or the disk refused it."""


@metadata_app.command("backup")
def backup(file: BackupFile, data: Data = None, store: StoreUrl = None, config: ConfigFile = None) -> None:
    """Write topics, users, ACLs, quotas, configs, tables and channels into FILE, for its owner alone.

    Left out are records, groups' offsets, delegation tokens, tasks, and configs of single nodes.
    """
    settings = load(config, data=data, store=store).settings
    configure_logs("error", settings.log_format)
    made = asyncio.run(_backup(settings))
    with private_file(file, BackupNotWritten) as backup:
        backup.write(encode_backup(made))
    typer.echo(f"{file} has {_summary(made.image())} of cluster {made.cluster_id}")


@metadata_app.command("restore")
def restore(
    file: BackupFile,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be restored, and change nothing")] = False,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Begin a new cluster in an empty store with the metadata of FILE. Start its nodes afterwards."""
    settings = load(config, data=data, store=store).settings
    configure_logs("error", settings.log_format)
    try:
        found = decode_backup(read_bounded(file, BYTES_MAX, BackupUnusable))
    except BackupUnusable as error:
        raise BackupUnusable(f"{file} cannot be restored: {error}") from None
    cluster_id = asyncio.run(_restore(settings, found, is_dry_run=dry_run))
    done = "would be restored" if dry_run else f"restored as cluster {cluster_id}"
    typer.echo(f"{_summary(found.image())} of cluster {found.cluster_id}: {done}")


async def _backup(settings: Settings) -> MetadataBackup:
    async with opened_beside(settings) as store:
        root = await read_root(store)
        state, offset = await stored_state(store, root.cluster_id)
        return backup_of(state, root.cluster_id, offset, time.time_ns() // 1_000_000)


async def _restore(settings: Settings, found: MetadataBackup, *, is_dry_run: bool) -> str:
    # Imported late: a backup needs nothing of a server.
    from bmq.server.metadata_restore import restore_metadata
    from bmq.server.process import SystemClock
    from bmq.server.start_retry import StartRetry

    random = SystemRandom()
    cluster_id = settings.cluster_id or cluster_id_from(random.randbytes(16))
    store = await open_store(settings, random)
    try:
        await require_empty_root(store)
        if not is_dry_run:
            await restore_metadata(
                store,
                found.records,
                cluster_id,
                clock=SystemClock(),
                random=random,
                settings=settings.broker,
                retry=StartRetry(settings.start_wait_ms),
            )
    finally:
        await store.close()
    return cluster_id


def _summary(image: MetadataImage) -> str:
    """What an operator can compare: `12 topics, 340 partitions, 3 users, 17 ACLs`."""
    counts = {
        "topics": len(image.topics),
        "partitions": image.partition_count,
        "users": len(image.users),
        "ACLs": len(image.acls),
        "tables": len(image.tables),
        "channels": len(image.channels),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items())
