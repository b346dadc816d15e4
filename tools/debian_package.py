"""Make a Debian package of this tree, and show on a bare Debian that it installs, serves, and goes away.

    python -m tools.debian_package [--suite bookworm] [--check]     # as root; the package is left in dist/

The package has a Python environment of its own in /opt/bmq, made inside a root file system of the suite (see tools/bare.py), so
it depends on that suite's Python and works on no other. Units and files of configuration come from deploy/.
With --check a second, bare root installs it, as a user would, and goes through DRILL without any network.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.bare import REPOSITORY, ROOTS, BareRoot, Phase, make_pristine, pass_clients_on

DIST: Final = REPOSITORY / "dist"
DEPLOY: Final = REPOSITORY / "deploy"
EXTRAS: Final = "cli,zookeeper,ca,oauth"
"""What a package of 100 MB may have more than a plain install. Kerberos would need a compiler."""
HOME: Final = "/opt/bmq"
STAGE: Final = "/srv/stage"
DRILL: Final = """
set -eu
bmq --version
id bmq
test "$(stat -c %U:%G:%a /etc/bmq/bmq.toml)" = root:bmq:640
test "$(stat -c %U:%a /var/lib/bmq)" = bmq:750
serve() {
    setpriv --reuid=bmq --regid=bmq --clear-groups --no-new-privs env -C /var/lib/bmq \\
        bmq standalone --config /etc/bmq/bmq.toml >/tmp/server.log 2>&1 &
    server=$!
    for _ in $(seq 600); do
        ! grep -q 'bmq ready' /tmp/server.log || return 0
        kill -0 $server || break
        sleep 0.1
    done
    cat /tmp/server.log
    return 1
}
stop() {
    kill -TERM $server
    wait $server || { cat /tmp/server.log; return 1; }
}
serve
bmq topic create greetings
echo hello | bmq topic produce greetings
bmq topic consume greetings | grep -q hello
stop
# An upgrade keeps what the operator changed, and the records.
echo '# changed here' >>/etc/bmq/bmq.toml
dpkg --install /srv/bmq.deb
grep -q 'changed here' /etc/bmq/bmq.toml
serve
bmq topic consume greetings | grep -q hello
stop
apt-get remove --yes --quiet bmq
if command -v bmq; then exit 1; fi
test -e /etc/bmq/bmq.toml
apt-get purge --yes --quiet bmq
test ! -e /etc/bmq/bmq.toml
test -d /var/lib/bmq/data
echo 'the package passed'
"""


def version_of(tree: Path) -> str:
    with (tree / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def control_of(version: str, architecture: str, python_minor: int, installed_kib: int) -> str:
    """The package's control file (Debian policy, chapter 5). Pure."""
    fields: Mapping[str, str] = {
        "Package": "bmq",
        "Version": version,
        "Section": "net",
        "Priority": "optional",
        "Architecture": architecture,
        "Depends": f"python3 (>= 3.{python_minor}), python3 (<< 3.{python_minor + 1}), libc6, adduser",
        "Recommends": "systemd",
        "Maintainer": "bmq developers <bmq@localhost>",
        "Installed-Size": str(installed_kib),
        "Description": "Kafka-wire-compatible message queue that keeps its log on HDFS\n"
        " bmq speaks the Kafka protocol and keeps every byte on HDFS, or in an embedded\n"
        " store. Its servers hold no data, so they are replaced within a second.",
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def build_wheel(directory: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(directory),
        str(REPOSITORY),
    ]
    subprocess.run(command, check=True)
    return next(directory.glob("bmq-*.whl"))


def put_file(bare: BareRoot, source: Path, target: str, mode: str = "0644") -> None:
    must(bare, f"install -d -m 0755 {shlex.quote(str(Path(target).parent))}")
    bare.put(target, source.read_bytes())
    must(bare, f"chmod {mode} {shlex.quote(target)}")


def must(bare: BareRoot, command: str, *, is_offline: bool = False) -> None:
    """Run a command in the root file system. Raises SystemExit if it fails."""
    if bare.run(Phase("package", command, is_offline, directory="")) != 0:
        raise SystemExit(f"this failed: {command.strip().splitlines()[0]}")


def opened(suite: str, roots: Path, name: str) -> BareRoot:
    bare = BareRoot(make_pristine(suite, roots), roots / f"{suite}-{name}.log")
    pass_clients_on(bare)
    return bare


def build(suite: str, roots: Path) -> Path:
    """Build the package in a root file system of the suite; the path of the package in dist/."""
    with tempfile.TemporaryDirectory() as directory, opened(suite, roots, "package") as bare:
        wheel = build_wheel(Path(directory))
        put_file(bare, wheel, f"/srv/{wheel.name}")
        must(bare, "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv")
        must(bare, f"python3 -m venv {HOME} && {HOME}/bin/pip install --quiet '/srv/{wheel.name}[{EXTRAS}]'")
        must(bare, f"mkdir -p {STAGE}/DEBIAN {STAGE}/opt {STAGE}/usr/bin && cp -a {HOME} {STAGE}/opt/")
        must(bare, f"ln -s {HOME}/bin/bmq {STAGE}/usr/bin/bmq")
        for name in ("bmq.service", "bmq-node.service"):
            put_file(bare, DEPLOY / "systemd" / name, f"{STAGE}/lib/systemd/system/{name}")
        put_file(bare, DEPLOY / "debian" / "bmq.toml", f"{STAGE}/etc/bmq/bmq.toml")
        put_file(bare, DEPLOY / "debian" / "default", f"{STAGE}/etc/default/bmq")
        put_file(bare, DEPLOY / "debian" / "README.Debian", f"{STAGE}/usr/share/doc/bmq/README.Debian")
        put_file(bare, REPOSITORY / "LICENSE", f"{STAGE}/usr/share/doc/bmq/copyright")
        put_file(bare, REPOSITORY / "README.md", f"{STAGE}/usr/share/doc/bmq/README.md")
        for page in sorted((REPOSITORY / "docs").glob("*.md")):
            put_file(bare, page, f"{STAGE}/usr/share/doc/bmq/docs/{page.name}")
        for script in ("postinst", "prerm", "postrm"):
            put_file(bare, DEPLOY / "debian" / script, f"{STAGE}/DEBIAN/{script}", "0755")
        bare.put(f"{STAGE}/DEBIAN/conffiles", b"/etc/bmq/bmq.toml\n/etc/default/bmq\n")
        facts = output(
            bare,
            f"dpkg --print-architecture; du -sk {STAGE} | cut -f1; python3 -c 'import sys; print(sys.version_info[1])'",
        )
        architecture, size_kib, minor = facts.split()
        version = f"{version_of(REPOSITORY)}-1~{suite}"
        bare.put(f"{STAGE}/DEBIAN/control", control_of(version, architecture, int(minor), int(size_kib)).encode())
        must(bare, f"dpkg-deb --root-owner-group -Zzstd --build {STAGE} /srv/bmq.deb")
        DIST.mkdir(exist_ok=True)
        package = DIST / f"bmq_{version}_{architecture}.deb"
        package.write_bytes(bare.read("/srv/bmq.deb"))
    return package


def output(bare: BareRoot, command: str) -> str:
    must(bare, f"{{ {command}; }} >/srv/output")
    return bare.read("/srv/output").decode()


def check(package: Path, suite: str, roots: Path) -> None:
    """Install the package on a bare root, use it, upgrade it and remove it. Raises SystemExit."""
    with opened(suite, roots, "installed") as bare:
        bare.put("/srv/bmq.deb", package.read_bytes())
        must(bare, "apt-get update -qq && apt-get install -y -qq --no-install-recommends /srv/bmq.deb")
        must(bare, DRILL, is_offline=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suite", default="bookworm")
    options.add_argument("--check", action="store_true")
    options.add_argument("--roots", type=Path, default=ROOTS)
    given = options.parse_args()
    roots = given.roots.resolve()
    roots.mkdir(parents=True, exist_ok=True)
    package = build(given.suite, roots)
    print(f"{package} has {package.stat().st_size / 1e6:.1f} MB")
    if given.check:
        check(package, given.suite, roots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
