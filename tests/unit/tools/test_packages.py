"""The parts of packages that need no root: units, control file, files of configuration, the image's settings."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from bmq.server.settings import Settings
from testing.patience import Patience
from tools import bare, container_image, debian_package, wheel_package
from tools.container_image import configuration
from tools.debian_package import DEPLOY, control_of

pytestmark = pytest.mark.campaign("unit")

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SCRIPTS = [
    *(pytest.param(path.read_text(), id=path.name) for path in sorted((DEPLOY / "debian").glob("p*"))),
    *(pytest.param(path.read_text(), id=path.name) for path in sorted(DEPLOY.rglob("*.sh"))),
    pytest.param(bare.SERVE, id="bare"),
    pytest.param(debian_package.DRILL, id="debian_package"),
    pytest.param(container_image.DRILL, id="container_image"),
    pytest.param(wheel_package.DRILL, id="wheel_package"),
]


def read_unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text())
    return parser


def test_there_is_a_unit_for_one_process_and_one_for_nodes() -> None:
    commands = {path.name: read_unit(path)["Service"]["ExecStart"] for path in UNITS}
    assert commands["bmq.service"] == "/usr/bin/bmq standalone --config /etc/bmq/bmq.toml"
    assert commands["bmq-node.service"] == "/usr/bin/bmq node --config /etc/bmq/bmq.toml"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_confined(path: Path) -> None:
    service = read_unit(path)["Service"]
    assert (service["User"], service["CapabilityBoundingSet"], service["NoNewPrivileges"]) == ("bmq", "", "yes")
    assert service["ProtectSystem"] == "strict"
    assert service["Restart"] == "on-failure"


def test_a_stop_is_given_its_time() -> None:
    one, node = (read_unit(DEPLOY / "systemd" / f"{name}.service")["Service"] for name in ("bmq", "bmq-node"))
    settings = Settings()
    assert int(one["TimeoutStopSec"]) * 1000 > settings.stop_timeout_ms
    assert int(node["TimeoutStopSec"]) * 1000 > settings.cluster.shutdown_wait_max_ms + settings.stop_timeout_ms


def test_only_one_of_both_services_runs() -> None:
    one, node = (read_unit(DEPLOY / "systemd" / f"{name}.service") for name in ("bmq", "bmq-node"))
    assert (one["Unit"]["Conflicts"], node["Unit"]["Conflicts"]) == ("bmq-node.service", "bmq.service")


def test_the_file_of_settings_is_one_that_the_server_takes() -> None:
    text = (DEPLOY / "debian" / "bmq.toml").read_text()
    settings = Settings(**tomllib.loads(text))
    assert (settings.listen, settings.data) == ("127.0.0.1:9092", Path("/var/lib/bmq/data"))
    # What stands there as an example is taken as well.
    lines = (line.removeprefix("# ") if " = " in line else "" for line in text.splitlines())
    node = Settings(**tomllib.loads("\n".join(lines)))
    assert (node.store, node.workers, node.node_id) == ("hdfs://NAMESERVICE/bmq", 2, 1)


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_scripts_of_the_package_are_ones_of_the_shell(name: str) -> None:
    shell = shutil.which("dash") or "/bin/sh"
    subprocess.run([shell, "-n", str(DEPLOY / "debian" / name)], check=True, timeout=Patience(30).limit_s)
    assert (DEPLOY / "debian" / name).read_text().startswith("#!/bin/sh\nset -e\n")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_negated_command_is_no_check_of_a_script(script: str) -> None:
    """`set -e` goes on after `! command`, whether the command succeeds or fails."""
    negated = [line for line in script.splitlines() if line.lstrip().startswith("! ")]
    assert [line for line in negated if " || " not in line and " && " not in line] == []


def test_a_package_depends_on_the_python_that_it_was_made_with() -> None:
    fields = dict(line.split(": ", 1) for line in control_of("1-1~x", "amd64", 13, 99).splitlines() if ": " in line)
    assert fields["Depends"] == "python3 (>= 3.13), python3 (<< 3.14), libc6, adduser"
    assert (fields["Version"], fields["Architecture"], fields["Installed-Size"]) == ("1-1~x", "amd64", "99")


def test_an_image_runs_as_a_user_and_keeps_its_data_in_a_volume() -> None:
    words = configuration()
    assert "--config.user=10001" in words
    assert "--config.volume=/var/lib/bmq" in words
    assert "--config.exposedports=9092/tcp" in words
