"""A disk whose power can be cut: what was not synced until then is gone, as after a power failure of a real machine.

It is a file system in a file, mounted where a process is to keep its data. `cut` has the kernel shut it down without
writing anything more, neither its log nor what lies in the page cache: the same order by which the authors of file systems
test theirs (FS_IOC_SHUTDOWN). Needs root, loop devices and mkfs.ext4.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
_SHUTDOWN: Final = 0x8004587D  # _IOR('X', 125, __u32)
_WITHOUT_LOG_FLUSH: Final = 2
_CLONE_NEWNS: Final = 0x00020000


class NoDisks(RuntimeError):
    """This machine cannot mount a file; the message says what is missing."""


class UnsafeDisk:
    """`directory`: where it is mounted once it is made; empty then."""

    def __init__(self, image: Path, directory: Path, size_mib: int = 64 * 1024) -> None:
        self.directory = directory
        self._image = image
        self._size_mib = size_mib

    def make(self) -> None:
        """Raises NoDisks."""
        if os.geteuid() != 0:
            raise NoDisks("a file can be mounted by root only")
        if shutil.which("mkfs.ext4") is None:
            raise NoDisks("there is no `mkfs.ext4` here: install e2fsprogs")
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(self._size_mib * MIB)  # sparse: it takes no more than what is written
        _run("mkfs.ext4", "-q", "-F", "-T", "largefile4", str(self._image))
        self._mount()

    def sync(self) -> None:
        """What is there now survives."""
        _run("sync", "--file-system", str(self.directory))

    def cut(self) -> None:
        """Nothing more is written; who uses it gets errors. End those, then `restore`."""
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """As the machine finds it when it is switched on again. Nobody may have a file of it open."""
        _run("umount", str(self.directory))
        self._mount()

    def close(self) -> None:
        """Gone with all that is on it; fine when it was never made."""
        if self.directory.is_mount():
            _run("umount", "--lazy", str(self.directory))
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        # The file system must not sync by itself every five seconds what nobody asked for.
        _run("mount", "-o", "loop,noatime,commit=300", str(self._image), str(self.directory))


def own_mounts() -> None:
    """From now on what this thread mounts, and its later threads and children, is seen by them alone and ends with them.

    The disks of others are let go of: a copy of the mount would keep the file system as it was when its power was cut.
    Raises NoDisks.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        raise NoDisks(f"the kernel gives no namespace of mounts ({os.strerror(ctypes.get_errno())}): this takes root")
    _run("mount", "--make-rprivate", "/")
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        source, directory, kind, *_ = mount.split(" ")
        if source.startswith("/dev/loop") and kind == "ext4":
            # Blanks are written in octal there.
            _run("umount", "--lazy", directory.encode().decode("unicode_escape"))


def _run(*command: str) -> None:
    """Raises NoDisks with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDisks(f"`{' '.join(command[:2])}` says {done.stderr.strip() or done.returncode!r}")
