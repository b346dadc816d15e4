"""Keep a cluster up in the foreground: start it, take orders, say what changes, and end it in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bmq.dev.cluster import DevCluster
from bmq.dev.cluster_file import ClusterFile
from bmq.dev.control import ControlServer

LOOK_INTERVAL_S: Final = 0.2
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def supervise(cluster: DevCluster, say: Callable[[str], None], on_up: Callable[[], None]) -> None:
    """Run `cluster` until an ending signal or the order to go down. `on_up` is called once it is usable.

    Raises the errors of the cluster's start. Nothing is left running however this ends.
    """
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, ending.set)
    ended = asyncio.create_task(ending.wait())
    try:
        starting = asyncio.create_task(cluster.start())
        await asyncio.wait((starting, ended), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            say("interrupted while starting; ending what was started")
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            return
        starting.result()
        await _serve_until(ended, ending, cluster, say, on_up)
        say("stopping")
        await cluster.stop()
    finally:
        ended.cancel()
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)


async def _serve_until(
    ended: asyncio.Task[bool],
    ending: asyncio.Event,
    cluster: DevCluster,
    say: Callable[[str], None],
    on_up: Callable[[], None],
) -> None:
    control = ControlServer(cluster, ending.set)
    ClusterFile(cluster.plan, await control.open(), os.getpid()).write(cluster.directory)
    try:
        on_up()
        seen = {daemon.name: daemon.state for daemon in cluster.daemons}
        while not ended.done():
            await asyncio.wait((ended,), timeout=LOOK_INTERVAL_S)
            for daemon in cluster.daemons:
                if daemon.state != seen[daemon.name]:
                    seen[daemon.name] = daemon.state
                    how = f" ({daemon.exit_text})" if daemon.state == "stopped" else ""
                    say(f"{daemon.name} is {daemon.state}{how}")
    finally:
        await control.close()
        ClusterFile(cluster.plan).write(cluster.directory)
