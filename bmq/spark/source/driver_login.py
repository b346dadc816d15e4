"""A driver's login to a kerberized HDFS, for the processes beside it in which Spark plans reads.

These processes have neither Spark's settings nor its tokens. So they get two things by their environment: the keytab that
Spark was given (`--principal`, `--keytab`; on YARN in cluster mode Spark brings it to the driver), and the directory of
tokens.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bmq.hdfs.hadoop_site import VARIABLE as CONF_DIR_VARIABLE
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.security import BadSecurity
from bmq.hdfs.token_file import FILE_VARIABLE
from bmq.spark.source.driver_directory import DriverDirectory, remove_abandoned
from bmq.spark.source.driver_tokens import DIRECTORY_VARIABLE, TokenDirectory, TokenRenewer
from bmq.spark.source.storage import KEYTAB_VARIABLE, PRINCIPAL_VARIABLE, renewed_end_s

_given: dict[str, str] = {}
"""Variables that this process was given here, for an earlier session of Spark: no operator has set them."""


def share_login(spark: Any) -> None:
    """Set the variables of these processes. Call it before any read is planned. Does nothing on an open cluster, or with a
    session of Spark Connect.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or not _is_kerberos({**os.environ, **context.environment}):
        return
    if conf_dir := context.environment.get(CONF_DIR_VARIABLE):
        os.environ[CONF_DIR_VARIABLE] = conf_dir  # this process renews tokens by the same settings
    login = _login_of_spark(context.getConf())
    shared = {DIRECTORY_VARIABLE: str(_directory()), **login}
    # Of functions that are made from now on: Spark keeps a copy with each.
    context.environment.update(shared)
    os.environ.update(shared)
    _given.update(login)


def _is_kerberos(environment: dict[str, str]) -> bool:
    try:
        hadoop = hadoop_properties(environment)
    except BadSecurity:
        return False  # who opens the store says so
    return hadoop.get("hadoop.security.authentication", "").strip().lower() == "kerberos"


def _login_of_spark(conf: Any) -> dict[str, str]:
    """Variables with Spark's principal and keytab; empty without them, or if others are given."""
    principal, keytab = conf.get("spark.kerberos.principal", ""), conf.get("spark.kerberos.keytab", "")
    own = os.environ.get(KEYTAB_VARIABLE)
    if not principal or not keytab or (own and own != _given.get(KEYTAB_VARIABLE)):
        return {}
    if find_spec("gssapi") is None and os.environ.get(FILE_VARIABLE):
        return {}  # the token that the job was given does, for as long as it counts
    # A name in the working directory, or a URL of a local file.
    path = Path(urlsplit(keytab).path).absolute()
    return {PRINCIPAL_VARIABLE: principal, KEYTAB_VARIABLE: str(path)}


@cache
def _directory() -> Path:
    """Of this process, whose tokens are renewed from now on. It is gone at the end, or with the next driver."""
    parent = Path(tempfile.gettempdir())
    remove_abandoned(parent)
    own = DriverDirectory(parent)
    atexit.register(own.remove)
    TokenRenewer(TokenDirectory(own.path), renewed_end_s).start()
    return own.path
