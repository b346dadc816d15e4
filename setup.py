"""What is made while the package is built: messages of .proto files, and the kernel of bmq/records/native.

Everything else about the package is in pyproject.toml.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PROTO_DIRECTORIES = tuple(ROOT / "bmq" / name for name in ("hdfs/proto", "gateway/v1", "databus/v1"))
KERNEL_DIRECTORY = ROOT / "bmq" / "records" / "native"
KERNEL = KERNEL_DIRECTORY / "libbmqkernel.so"
KERNEL_CHECKSUM = KERNEL_DIRECTORY / "libbmqkernel.so.sha256"
COMPILER_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fPIC", "-shared")


def compiler() -> list[str] | None:
    """The command of the C compiler: what the variable CC names, or the system's."""
    named = shlex.split(os.environ.get("CC", ""))
    if named:
        return named if shutil.which(named[0]) else None
    found = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    return None if found is None else [found]


def build_kernel() -> bool:
    """Leave the kernel and its checksum beside its sources; without a compiler neither is there. Whether it is.

    The library gets its place by a rename: a process that has the old one loaded keeps it.
    """
    KERNEL_CHECKSUM.unlink(missing_ok=True)
    KERNEL.unlink(missing_ok=True)
    command = compiler()
    if command is None:
        return False
    made = KERNEL.with_name(f"{KERNEL.name}.{os.getpid()}")
    sources = sorted(str(path) for path in KERNEL_DIRECTORY.glob("*.c"))
    try:
        run = subprocess.run([*command, *COMPILER_FLAGS, "-o", str(made), *sources], capture_output=True, text=True)
        if run.returncode != 0:
            logging.warning("the kernel could not be compiled, bmq works without it:\n%s", run.stderr)
            return False
        KERNEL_CHECKSUM.write_text(hashlib.sha256(made.read_bytes()).hexdigest() + "\n")
        made.rename(KERNEL)
    finally:
        made.unlink(missing_ok=True)
    return True


class BuildWithGenerated(build_py):
    """Leaves what is made beside its sources, as an editable install needs it."""

    def run(self) -> None:
        from grpc_tools import protoc

        found = [path for directory in PROTO_DIRECTORIES for path in sorted(directory.glob("*.proto"))]
        files = [str(path.relative_to(ROOT)) for path in found]
        if protoc.main(["protoc", f"--proto_path={ROOT}", f"--python_out={ROOT}", f"--pyi_out={ROOT}", *files]) != 0:
            raise SystemExit("the .proto files of bmq could not be compiled")
        build_kernel()
        super().run()


class WheelOfPlatform(bdist_wheel):
    """A wheel with the kernel in it is for one platform, but for every Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if build_kernel():
            self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return ("py3", "none", platform)


commands: dict[str, Any] = {"build_py": BuildWithGenerated, "bdist_wheel": WheelOfPlatform}
setup(cmdclass=commands)
