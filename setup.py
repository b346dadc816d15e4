"""Compiles bmq/hdfs/proto/*.proto while the package is built; everything else about it is in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PROTO_DIRECTORY = ROOT / "bmq" / "hdfs" / "proto"


class BuildWithProtos(build_py):
    """Leaves the message classes (and their type stubs) beside the .proto files, as an editable install needs them."""

    def run(self) -> None:
        from grpc_tools import protoc

        files = [str(path.relative_to(ROOT)) for path in sorted(PROTO_DIRECTORY.glob("*.proto"))]
        if protoc.main(["protoc", f"--proto_path={ROOT}", f"--python_out={ROOT}", f"--pyi_out={ROOT}", *files]) != 0:
            raise SystemExit("the .proto files of bmq/hdfs/proto could not be compiled")
        super().run()


setup(cmdclass={"build_py": BuildWithProtos})
