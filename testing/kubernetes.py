"""Kubernetes' own API server over etcd, with the controllers that make pods of StatefulSets, and no kubelet.

    with running_kubernetes(directory) as kubernetes:
        kubernetes.kubectl("get", "pods")
        kubernetes.request("GET", "/api/v1/namespaces/default/pods")

Pods are objects that no machine runs. A test plays the kubelet where it needs one (tests/support/pod_machine.py). The programs are
compiled by `make kubernetes-tools`.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, ProcessFailed, eventually, free_port

PROGRAMS: Final = REPOSITORY / ".cache" / "kubernetes" / "bin"
NEEDED: Final = ("etcd", "helm", "kube-apiserver", "kube-controller-manager", "kubectl")
START_WAIT_S: Final = 120.0
REQUEST_WAIT_S: Final = 30.0
COMMAND_WAIT_S: Final = 120.0
SERVICES: Final = "10.0.0.0/24"
"""Where Services would have their addresses; nothing listens there."""


class Kubernetes:
    """A started API server. `directory` gets its files and logs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.token = secrets.token_hex(16)
        """Of an administrator."""
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._keys = directory / "service-account.key"
        self.api_server = ManagedProcess("kube-apiserver", self._api_server_command(), directory / "apiserver.log")
        self._etcd = ManagedProcess("etcd", self._etcd_command(), directory / "etcd.log")
        self._controllers = ManagedProcess(
            "kube-controller-manager", self._controllers_command(), directory / "controllers.log"
        )

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        return self.directory / "certificates" / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return self.directory / "kubeconfig"

    def start(self) -> None:
        """Raises ProcessFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._keys.write_bytes(new_key())
        (self.directory / "tokens.csv").write_text(f"{self.token},administrator,1,system:masters\n")
        self._etcd.start()
        self.start_api_server()
        self._write_kubeconfig()
        self._controllers.start()
        self.wait_for(
            "GET", "/api/v1/namespaces/default/serviceaccounts/default", "the controllers make service accounts"
        )

    def start_api_server(self) -> None:
        """Also again, after its end."""
        self.api_server.start()
        self.wait_for("GET", "/readyz", "the API server is ready")

    def stop(self) -> None:
        for process in (self._controllers, self.api_server, self._etcd):
            if process.is_running:
                process.kill()

    # --- requests

    def request(self, method: str, path: str, body: object = None, *, token: str = "") -> tuple[int, Any]:
        """Status and decoded body. `token`: of another user than the administrator. Raises httpx.HTTPError."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        with httpx.Client(
            verify=ssl.create_default_context(cafile=str(self.ca_file)), trust_env=False, timeout=REQUEST_WAIT_S
        ) as client:
            response = client.request(method, f"{self.url}{path}", json=body, headers=headers)
        is_json = "json" in response.headers.get("content-type", "")
        return response.status_code, response.json() if is_json else response.text

    def get(self, path: str) -> Any:
        """Raises AssertionError: it is not there."""
        status, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return body

    def pods_wanted(self, stateful_set: str, namespace: str) -> int:
        found = self.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{stateful_set}")
        replicas: int = found["spec"]["replicas"]
        return replicas

    def wait_for(self, method: str, path: str, what: str) -> None:
        """Until the answer is 200."""

        def is_answered() -> bool:
            for process in (self._etcd, self.api_server):
                if not process.is_running:
                    raise ProcessFailed(f"{process.name} ended with {process.exit_code}{process}")
            try:
                return self.ca_file.exists() and self.request(method, path)[0] == 200
            except httpx.HTTPError:
                return False

        eventually(is_answered, START_WAIT_S, what, 0.1)

    def token_of(self, service_account: str, namespace: str, pod: str = "") -> str:
        """`pod`: it ends with this one, as what a kubelet asks for."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        bound = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod}} if pod else {}
        status, answer = self.request("POST", path, {"spec": {"expirationSeconds": 3_600, **bound}})
        assert status == 201, answer
        token: str = answer["status"]["token"]
        return token

    # --- programs

    def kubectl(self, *arguments: str, is_checked: bool = True, given: str | None = None) -> str:
        """Its output. `given`: its standard input. Raises AssertionError: it failed, and `is_checked`."""
        return self._run("kubectl", arguments, given, is_checked)

    def helm(self, *arguments: str, is_checked: bool = True) -> str:
        """As `kubectl`."""
        return self._run("helm", arguments, None, is_checked)

    # --- parts

    def _run(self, program: str, arguments: tuple[str, ...], given: str | None, is_checked: bool) -> str:
        done = subprocess.run(
            [str(PROGRAMS / program), *arguments],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=Patience(COMMAND_WAIT_S).limit_s,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory)},
        )
        assert done.returncode == 0 or not is_checked, f"{program} {' '.join(arguments)} failed:\n{done.stdout}"
        return done.stdout

    def _etcd_command(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            str(PROGRAMS / "etcd"),
            f"--data-dir={self.directory / 'etcd'}",
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
            "--unsafe-no-fsync",
        ]  # fmt: skip

    def _api_server_command(self) -> list[str]:
        return [
            str(PROGRAMS / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            *("--bind-address=127.0.0.1", f"--secure-port={self.port}", f"--cert-dir={self.directory / 'certificates'}"),
            f"--service-cluster-ip-range={SERVICES}",
            *(f"--service-account-key-file={self._keys}", f"--service-account-signing-key-file={self._keys}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--endpoint-reconciler-type=none",
        ]  # fmt: skip

    def _controllers_command(self) -> list[str]:
        controllers = ("statefulset", "serviceaccount", "namespace", "garbage-collector")
        return [
            str(PROGRAMS / "kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(f'{name}-controller' for name in controllers)}",
            *("--leader-elect=false", "--secure-port=0"),
        ]

    def _write_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "administrator", "user": {"token": self.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "administrator"}}],
            "current-context": "here",
        }
        self.kubeconfig.write_text(json.dumps(content))


def new_key() -> bytes:
    """Signs the tokens of service accounts."""
    key = rsa.generate_private_key(65_537, 2_048)
    kind = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())


@contextmanager
def running_kubernetes(directory: Path) -> Iterator[Kubernetes]:
    """Raises AssertionError: its programs are not there."""
    missing = [program for program in NEEDED if not (PROGRAMS / program).exists()]
    assert not missing, (
        f"{', '.join(missing)}: not in {PROGRAMS}; `make kubernetes-tools` compiles them, in half an hour"
    )
    kubernetes = Kubernetes(directory)
    try:
        kubernetes.start()
        yield kubernetes
    finally:
        kubernetes.stop()
