"""Make an OCI image of this tree without a daemon or a registry, and show that it serves.

    python -m tools.container_image [--suite bookworm] [--check]     # as root; the image is left in dist/

The image is a minimal Debian of the suite (see tools/bare.py) with Python and the environment of the Debian package, and runs as the
user bmq. umoci, of Debian, writes it; `skopeo copy oci-archive:…`, `podman load` and `docker load` take the archive.
With --check umoci unpacks it, and its command runs in the unpacked root, as the image's user and without any network but
loopback: a chroot in namespaces of its own, which stands for a container runtime.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tools.bare import REPOSITORY, ROOTS
from tools.debian_package import DIST, EXTRAS, HOME, build_wheel, must, opened, put_file, version_of

TAG: Final = "bmq"
USER: Final = 10001
DATA: Final = "/var/lib/bmq"
PORTS: Final = (9092, 9093, 8080)
COMMAND: Final = ("standalone", "--listen", "0.0.0.0:9092", "--rest", "0.0.0.0:8080")
NOT_IN_THE_IMAGE: Final = (
    "srv/*",
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
    "etc/apt/apt.conf.d/99outside",
    "root/.pip",
    "root/.config",
)
DRILL: Final = """
set -eu
ip link set lo up
began=$(date +%s%N)
chroot --userspec={user} "$1" env -i {environment} sh -c 'cd {data} && exec {command}' &
server=$!
in_image() {{ chroot --userspec={user} "$1" env -i PATH=/usr/bin:/bin HOME=/tmp sh -c "$2"; }}
until in_image "$1" 'bmq topic create greetings --if-not-exists' 2>/dev/null; do
    kill -0 $server
    sleep 0.1
done
in_image "$1" 'echo hello | bmq topic produce greetings'
in_image "$1" 'bmq topic consume greetings' | grep -q hello
echo "the first record was read $((($(date +%s%N) - began) / 1000000)) ms after the start"
kill -TERM $server
wait $server
"""


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def configuration() -> list[str]:
    """Arguments of `umoci config`: what a runtime starts, as whom, and what it may mount and publish."""
    words = [
        f"--config.user={USER}",
        f"--config.workingdir={DATA}",
        f"--config.volume={DATA}",
        "--config.stopsignal=SIGTERM",
    ]
    words += [f"--config.exposedports={port}/tcp" for port in PORTS]
    # As Apache Kafka's image: reached through a published port of this machine. Elsewhere the variable names another address.
    words += ["--config.env=BMQ_ADVERTISED=127.0.0.1:9092", f"--config.env=HOME={DATA}"]
    words += ["--config.entrypoint=/usr/bin/bmq", *(f"--config.cmd={word}" for word in COMMAND)]
    words += [
        f"--config.label=org.opencontainers.image.title={TAG}",
        f"--config.label=org.opencontainers.image.version={version_of(REPOSITORY)}",
    ]
    return words


def build(suite: str, roots: Path) -> Path:
    """The archive of the image in dist/."""
    with tempfile.TemporaryDirectory(dir=roots) as directory, opened(suite, roots, "image") as bare:
        wheel = build_wheel(Path(directory))
        put_file(bare, wheel, f"/srv/{wheel.name}")
        must(bare, "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv")
        must(bare, f"python3 -m venv {HOME} && {HOME}/bin/pip install --quiet '/srv/{wheel.name}[{EXTRAS}]'")
        must(bare, f"ln -s {HOME}/bin/bmq /usr/bin/bmq")
        must(
            bare,
            f"useradd --system --uid {USER} --home-dir {DATA} --no-create-home bmq && install -d -o bmq -g bmq {DATA}",
        )
        must(bare, "rm -rf " + " ".join(NOT_IN_THE_IMAGE))
        layout, bundle = Path(directory) / "layout", Path(directory) / "bundle"
        image = f"{layout}:{TAG}"
        run("umoci", "init", "--layout", str(layout))
        run("umoci", "new", "--image", image)
        run("umoci", "unpack", "--image", image, str(bundle))
        bare.copy_to(bundle / "rootfs")
        run("umoci", "repack", "--refresh-bundle", "--image", image, str(bundle))
        run("umoci", "config", "--image", image, *configuration())
        run("umoci", "gc", "--layout", str(layout))
        DIST.mkdir(exist_ok=True)
        archive = DIST / f"bmq-{version_of(REPOSITORY)}-{suite}.oci.tar"
        run("tar", "-C", str(layout), "-cf", str(archive), ".")
    return archive


def check(archive: Path, roots: Path) -> None:
    """Unpack the archive and run what it says. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(dir=roots) as directory:
        layout, bundle = Path(directory) / "layout", Path(directory) / "bundle"
        layout.mkdir()
        run("tar", "-C", str(layout), "-xf", str(archive))
        run("umoci", "unpack", "--image", f"{layout}:{TAG}", str(bundle))
        process = json.loads((bundle / "config.json").read_text())["process"]
        user: dict[str, Any] = process["user"]
        environment = shlex.join(process["env"])
        drill = DRILL.format(
            environment=environment,
            user=f"{user['uid']}:{user['gid']}",
            data=process["cwd"],
            command=shlex.join(process["args"]),
        )
        rootfs = bundle / "rootfs"
        namespaces = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount", f"--mount-proc={rootfs}/proc")
        subprocess.run([*namespaces, "sh", "-c", drill, "sh", str(rootfs)], check=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suite", default="bookworm")
    options.add_argument("--check", action="store_true")
    options.add_argument("--roots", type=Path, default=ROOTS)
    given = options.parse_args()
    roots = given.roots.resolve()
    roots.mkdir(parents=True, exist_ok=True)
    if shutil.which("umoci") is None:
        subprocess.run([str(REPOSITORY / "deploy/dev/install-tools.sh"), "umoci"], check=True)
    archive = build(given.suite, roots)
    print(f"{archive} has {archive.stat().st_size / 1e6:.1f} MB")
    if given.check:
        check(archive, roots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
