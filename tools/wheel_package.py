"""Make a wheel and a source archive of this tree, and show on a bare Debian that pipx installs the wheel and that it serves.

    python -m tools.wheel_package [--suite bookworm] [--check]     # both are left in dist/; --check needs root

The wheel is built from the source archive, so an archive that lacks a file makes none. With --check a bare root file system (see
tools/bare.py) installs the wheel without extras by `pipx install`, then goes through DRILL without any network.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tools.bare import REPOSITORY, ROOTS
from tools.debian_package import DIST, must, opened, put_file

FIRST_RECORD_S: Final = 20
"""From the start of the server until its first record is read."""
DRILL: Final = f"""
set -eu
export PATH="$HOME/.local/bin:$PATH"
bmq --version
mkdir /srv/data && cd /srv/data
began=$(date +%s%N)
bmq standalone >/tmp/server.log 2>&1 &
server=$!
trap 'cat /tmp/server.log' EXIT
until echo hello | kcat -b 127.0.0.1:9092 -P -t greetings -X message.timeout.ms=1000 2>/dev/null; do
    kill -0 $server
    sleep 0.1
done
kcat -b 127.0.0.1:9092 -C -t greetings -o beginning -e -q | grep -qx hello
took_ms=$((($(date +%s%N) - began) / 1000000))
echo "the first record was read $took_ms ms after the start"
test $took_ms -lt {FIRST_RECORD_S * 1000}
kill -TERM $server
wait $server
trap - EXIT
pipx uninstall bmq
test ! -e "$HOME/.local/bin/bmq"
echo 'the wheel passed'
"""


class Distributions(NamedTuple):
    wheel: Path
    source: Path

    @classmethod
    def within(cls, directory: Path) -> Distributions:
        """The only ones there. Raises ValueError if there are others."""
        (wheel,), (source,) = directory.glob("bmq-*.whl"), directory.glob("bmq-*.tar.gz")
        return cls(wheel, source)


def build(tree: Path, directory: Path, *, is_isolated: bool = True) -> Distributions:
    """Both distributions of the tree. Not isolated: by the build tools of this environment, without a network."""
    words = [sys.executable, "-m", "build", "--outdir", str(directory), *([] if is_isolated else ["--no-isolation"])]
    subprocess.run([*words, str(tree)], check=True, stdout=subprocess.DEVNULL)
    return Distributions.within(directory)


def require_acceptable(made: Distributions) -> None:
    """Let twine look at them as it does before an upload; a warning counts. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made)], check=True)


def check(wheel: Path, suite: str, roots: Path) -> None:
    """Install the wheel on a bare root as a user would, and use it. Raises SystemExit."""
    with opened(suite, roots, "wheel") as bare:
        put_file(bare, wheel, f"/srv/{wheel.name}")
        must(bare, "apt-get update -qq && apt-get install -y -qq --no-install-recommends pipx python3-venv kcat")
        must(bare, f"pipx install /srv/{wheel.name}")
        must(bare, DRILL, is_offline=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--suite", default="bookworm")
    options.add_argument("--check", action="store_true")
    options.add_argument("--roots", type=Path, default=ROOTS)
    given = options.parse_args()
    for old in (*DIST.glob("bmq-*.whl"), *DIST.glob("bmq-*.tar.gz")):
        old.unlink()
    made = build(REPOSITORY, DIST)
    require_acceptable(made)
    for path in made:
        print(f"{path} has {path.stat().st_size / 1e6:.1f} MB")
    if given.check:
        roots = given.roots.resolve()
        roots.mkdir(parents=True, exist_ok=True)
        check(made.wheel, given.suite, roots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
