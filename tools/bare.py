"""Show on a bare Debian that two commands are enough: `make run` serves, and the tests pass.

    python3 tools/bare.py [--suite NAME …] [--what check|test] [--stages NAME …] [--roots DIRECTORY]

For each release of Debian, by default the one with the oldest Python that is supported and the one with the newest: makes a
root file system with debootstrap (as root, once, kept in --roots), puts a layer over it that is thrown away at the end,
installs `make` and `git`, puts this working tree there as a clone would be, and goes on as anybody would. What serves and
what is tested has a network of its own, without any other host. How apt, pip and Maven reach their packages here is passed
on: configuration, certificates, variables. Every process ends with this one.

Exit code 1 says that something failed; the last lines say what took how long, and a log for each release has all of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).resolve().parents[1]
ROOTS = REPOSITORY / ".cache" / "bare"
SUITES = ("bookworm", "trixie")
CLONE = "srv/bmq"
CLIENT_VARIABLES = re.compile(
    r"(PIP|SSL_CERT|MAVEN)_\w+|(REQUESTS|CURL)_CA_BUNDLE|(https?|no|all)_proxy", re.IGNORECASE
)
CLIENT_FILES = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/apt/auth.conf.d",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/local/share/ca-certificates",
    "~/.config/pip",
    "~/.pip",
    "~/.m2/settings.xml",
)
MAVEN_REPOSITORY = Path("~/.m2/repository")
HOLD = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
MOUNTS = """
set -eu
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mount --rbind /sys "$2/root/sys"
mount --rbind /dev "$2/root/dev"
if [ -d "$3" ]; then mkdir -p "$2/root/$3"; mount --bind "$3" "$2/root/$3"; fi
echo mounted
cat
"""
COMMIT = """
git init -q .
git add --all
git -c user.name=nobody -c user.email=nobody@localhost commit -q -m "as it stands"
"""
SERVE = """
make run >/tmp/run.log 2>&1 &
server=$!
trap 'cat /tmp/run.log' EXIT
.venv/bin/python -m tools.first_record
kill -TERM $server
wait $server || [ $? -eq 143 ]  # make's own answer to the signal, which it passes on
grep -q server_stopped /tmp/run.log
"""


@dataclasses.dataclass(frozen=True)
class Phase:
    name: str
    command: str
    is_offline: bool = False
    directory: str = CLONE


def phases(what: str, stages: Sequence[str]) -> Iterator[Phase]:
    yield Phase("make and git", "apt-get update -qq && apt-get install -y -qq --no-install-recommends make git")
    yield Phase("clone", COMMIT)
    yield Phase("make install", "make install && .venv/bin/python --version")
    yield Phase("make run", SERVE, is_offline=True)
    stamps = {
        "check": ".venv/.installed-dev",
        "test": ".venv/.installed-spark .venv/.installed-bench .venv-plain/.installed tools jars",
    }
    yield Phase("install tests", f"make {stamps[what]}")
    yield Phase(f"make {what}", f"make {what} STAGES='{' '.join(stages)}'", is_offline=True)


class BareRoot:
    """A root file system with a layer over it, seen by a process that holds its mounts; all of it ends with `close`."""

    def __init__(self, pristine: Path, log: Path) -> None:
        self._log = log.open("w")
        self._layer = Path(tempfile.mkdtemp(prefix="layer-", dir=pristine.parent))
        self.root = self._layer / "root"
        for name in ("upper", "work", "root"):
            (self._layer / name).mkdir()
        maven = str(MAVEN_REPOSITORY.expanduser())
        self._holder = subprocess.Popen(
            [*HOLD, "sh", "-c", MOUNTS, "sh", str(pristine), str(self._layer), maven],
            stdin=subprocess.PIPE,  # the holder ends when this is closed, however this process ends
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "mounted\n":
            self.__exit__(None, None, None)
            raise SystemExit("the root file system could not be mounted: this needs root, overlayfs and namespaces")
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text()
        self._enter = ["nsenter", "--target", children.split()[0], "--mount", "--pid"]

    def __enter__(self) -> BareRoot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._log.close()
        shutil.rmtree(self._layer)

    def put(self, path: str, content: bytes) -> None:
        subprocess.run([*self._enter, "sh", "-c", 'cat >"$1"', "sh", f"{self.root}{path}"], input=content, check=True)

    def read(self, path: str) -> bytes:
        return subprocess.run([*self._enter, "cat", f"{self.root}{path}"], capture_output=True, check=True).stdout

    def copy_to(self, directory: Path) -> None:
        """Copy the root file system, without what is mounted in it."""
        pack = [*self._enter, "tar", "-c", "--one-file-system", "--numeric-owner", "-C", str(self.root), "."]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packing:
            subprocess.run(["tar", "-x", "--numeric-owner", "-C", str(directory)], stdin=packing.stdout, check=True)
        if packing.returncode != 0:
            raise SystemExit("the root file system could not be copied")

    def unpack(self, archive: bytes, directory: str) -> None:
        target = f"{self.root}/{directory}"
        subprocess.run([*self._enter, "mkdir", "-p", target], check=True)
        subprocess.run([*self._enter, "tar", "-x", "--no-same-owner", "-C", target], input=archive, check=True)

    def run(self, phase: Phase) -> int:
        """Its exit code; what it says is shown and logged."""
        variables = [f"{name}={value}" for name, value in os.environ.items() if CLIENT_VARIABLES.fullmatch(name)]
        variables += ["HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        variables += ["DEBIAN_FRONTEND=noninteractive"]
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if phase.is_offline else []
        inside = [
            "chroot",
            str(self.root),
            "env",
            "-i",
            *variables,
            "sh",
            "-euc",
            f"cd /{phase.directory}\n{phase.command}",
        ]
        with subprocess.Popen(
            [*self._enter, *alone, *inside],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                sys.stdout.write(line)
                self._log.write(line)
            return process.wait()


def make_pristine(suite: str, roots: Path) -> Path:
    """With debootstrap, from the archive that apt uses here; renamed when it is whole."""
    pristine = roots / suite
    if not pristine.exists():
        if shutil.which("debootstrap") is None:
            subprocess.run([str(REPOSITORY / "deploy/dev/install-tools.sh"), "debootstrap"], check=True)
        with part(roots / f"{suite}.part") as unfinished:
            command = ["debootstrap", "--variant=minbase", suite, str(unfinished), *archive_of_apt()]
            print(" ".join(command[:3]), flush=True)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            unfinished.rename(pristine)
    return pristine


@contextmanager
def part(directory: Path) -> Iterator[Path]:
    shutil.rmtree(directory, ignore_errors=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def archive_of_apt() -> list[str]:
    """Where apt gets Debian from on this machine; none: debootstrap knows one itself."""
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()[:1]


def pass_clients_on(bare: BareRoot) -> None:
    present = [path for name in CLIENT_FILES if (path := Path(name).expanduser()).exists()]
    # As files, not as links to what a bare system does not have.
    archive = ["tar", "-c", "-h", "-C", "/", *(str(path).lstrip("/") for path in present)]
    bare.unpack(subprocess.run(archive, capture_output=True, check=True).stdout, "")
    acquire = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, check=False).stdout
    bare.put("/etc/apt/apt.conf.d/99outside", acquire)


def copy_tree(bare: BareRoot) -> None:
    """What git knows of, and what is new, as it stands here."""
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True).stdout
    there = b"\0".join(name for name in names.split(b"\0") if name and os.path.lexists(REPOSITORY / name.decode()))
    archive = ["tar", "-c", "-C", str(REPOSITORY), "--null", "--no-recursion", "--files-from=-"]
    bare.unpack(subprocess.run(archive, input=there, capture_output=True, check=True).stdout, CLONE)


def show(suite: str, roots: Path, what: str, stages: Sequence[str]) -> list[str]:
    """A line for each phase; after one that fails come no others."""
    lines = []
    log = roots / f"{suite}.log"
    with BareRoot(make_pristine(suite, roots), log) as bare:
        pass_clients_on(bare)
        copy_tree(bare)
        for phase in phases(what, stages):
            print(f"=== {suite}: {phase.name}", flush=True)
            began = time.monotonic()
            code = bare.run(phase)
            mark = "ok    " if code == 0 else "FAILED"
            lines.append(f"{mark} {suite:10} {phase.name:16} {time.monotonic() - began:5.0f} s")
            if code:
                return [*lines, f"       its log is {log}"]
    return lines


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suite", nargs="+", default=SUITES)
    options.add_argument("--what", choices=["check", "test"], default="check")
    options.add_argument("--stages", nargs="*", default=(), help="of `make check` or `make test`, these alone")
    options.add_argument("--roots", type=Path, default=ROOTS)
    given = options.parse_args()
    if os.geteuid() != 0:
        print("A root file system can be made and entered as root only.")
        return 1
    roots = given.roots.resolve()
    roots.mkdir(parents=True, exist_ok=True)
    lines = [line for suite in given.suite for line in show(suite, roots, given.what, given.stages)]
    print("\n".join(lines))
    return int(any(line.startswith("FAILED") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
