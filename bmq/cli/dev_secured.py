"""`bmq dev up --secure`: the users of the cluster, and what to type as one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bmq.cli.user import TooLate, keys_for, write_users
from bmq.dev.bmq_cluster import SETTINGS_FILE
from bmq.dev.secured import ADMIN, USERS, SecuredFiles
from bmq.protocol.errors import BmqError
from bmq.security.sasl.scram_keys import BY_NAME, ITERATIONS_MIN
from bmq.server.settings import load_settings

if TYPE_CHECKING:
    from bmq.dev.bmq_cluster import BmqCluster


class NotSecured(BmqError):
    """The cluster was made without users, and cannot get its first ones any more."""


def secured_files(data: Path, *, is_wanted: bool, was_made: bool) -> SecuredFiles | None:
    """The files of a secured cluster, made if need be; None: an open one. `was_made`: there is a cluster in `data`.

    A cluster that was secured stays so. Raises NotSecured, NoCertificates.
    """
    files = SecuredFiles.of(data)
    if files.exist:
        return files
    if not is_wanted:
        return None
    if was_made:
        raise NotSecured(f"{data} holds a cluster that was made without --secure; name another directory with --data")
    files.make()
    return files


async def write_users_once(cluster: BmqCluster, files: SecuredFiles) -> None:
    """Before the cluster's first start: its users. Later they are in its metadata already."""
    settings = load_settings({"store": cluster.store}, cluster.directory / SETTINGS_FILE).settings
    keys = [
        keys_for(user, mechanism, ITERATIONS_MIN, files.password(user))
        for user in USERS
        for mechanism in BY_NAME.values()
    ]
    try:
        await write_users(settings, keys)
    except TooLate:
        return


def what_to_type(files: SecuredFiles, bootstrap: str, rest: str) -> list[str]:
    """Lines for a terminal."""
    place = _shown(files.directory)
    admin = f"--kafka @{place}/{ADMIN}.conf --bootstrap {bootstrap}"
    alice = f"--kafka @{place}/alice.conf --bootstrap {bootstrap}"
    return [
        f"users:          {', '.join(USERS)}; {ADMIN} may do everything, the others what ACLs allow",
        f"their files:    {place}: USER.password, USER.properties (Java), USER.conf (librdkafka), USER.rest.toml",
        f"a topic:        bmq topic create demo {admin}",
        f"its ACL:        bmq acl add --allow User:alice -o all --topic demo --group demo {admin}",
        f"as alice:       echo hello | bmq topic produce demo {alice}",
        f"                bmq topic consume demo {alice}",
        f"with Java:      kafka-topics.sh --list --bootstrap-server {bootstrap} --command-config {place}/alice.properties",
        f"the cluster:    bmq cluster status --rest https://{rest} --rest-config {place}/{ADMIN}.rest.toml",
    ]


def _shown(path: Path) -> Path:
    """As seen from here, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
