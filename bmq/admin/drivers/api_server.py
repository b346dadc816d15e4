"""StatefulSets through Kubernetes' API server, by the service account of the pod that we are in.

Two requests are all that scaling needs: GET of the StatefulSet and PUT of its `scale`. A Role that allows these two is enough.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bmq.admin.drivers.driver import DriverFailed
from bmq.admin.drivers.stateful_set import StatefulSet, read_stateful_set
from bmq.aio.http_handshakes import closing_handshakes
from bmq.dataclass import dataclass

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts token, CA and namespace of a pod's service account."""
REQUEST_WAIT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
FILE_BYTES_MAX: Final = 1024 * 1024
SCALE_TRIES_MAX: Final = 10
_REASON_CHARACTERS_MAX: Final = 300
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class PodAccess:
    """`url`: of the API server. `directory`: has `token`, `ca.crt` and `namespace`, which Kubernetes renews."""

    url: str
    directory: Path


def pod_access(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> PodAccess | None:
    """None outside of a pod, and in one that has no token of its service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (directory / "token").exists():
        return None
    return PodAccess(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", directory)


class ApiServer:
    """Implements StatefulSets. `namespace` empty: the pod's."""

    def __init__(self, access: PodAccess, *, namespace: str = "") -> None:
        self._access = access
        self._namespace = namespace

    async def read(self, name: str) -> StatefulSet:
        _, answer = await self._ask("GET", name, "", None)
        return read_stateful_set(name, answer)

    async def scale(self, name: str, before: StatefulSet, replicas: int) -> None:
        """The StatefulSet's status changes often, and each change makes a conflict; only another number of pods is one for us."""
        version = before.version
        for _ in range(SCALE_TRIES_MAX):
            body = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name, "namespace": await self._namespace_name(), "resourceVersion": version},
                "spec": {"replicas": replicas},
            }
            status, _ = await self._ask("PUT", name, "/scale", json.dumps(body).encode())
            if status != _CONFLICT:
                return
            found = await self.read(name)
            if found.replicas != before.replicas:
                raise DriverFailed(
                    f"another client has scaled StatefulSet {name} meanwhile: from {before.replicas} pods to {found.replicas}"
                )
            version = found.version
        raise DriverFailed(f"StatefulSet {name} changed {SCALE_TRIES_MAX} times while it was to be scaled; try again")

    # --- requests

    async def _ask(self, method: str, name: str, below: str, body: bytes | None) -> tuple[int, bytes]:
        """The answer's status, which is one of success or 409, and its body. Raises DriverFailed."""
        namespace = await self._namespace_name()
        path = f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/statefulsets/{quote(name, safe='')}{below}"
        token = await self._read("token")
        if not token.isascii() or not token.isprintable():
            raise DriverFailed(f"{self._access.directory / 'token'} is no token")
        try:
            async with asyncio.timeout(REQUEST_WAIT_S):
                status, answer = await self._answer(method, path, token, body)
        except TimeoutError:
            raise DriverFailed(
                f"Kubernetes' API server {self._access.url} did not answer within {REQUEST_WAIT_S:g} s"
            ) from None
        if status == _CONFLICT or 200 <= status < 300:
            return status, answer
        order = f"{'read' if body is None else 'scale'} StatefulSet {name} in namespace {namespace}"
        raise DriverFailed(f"Kubernetes refuses to {order}: {_reason(status, answer)}")

    async def _answer(self, method: str, path: str, token: str, body: bytes | None) -> tuple[int, bytes]:
        import httpx

        kind = {} if body is None else {"content-type": "application/json"}
        # An answer that is compressed all the same is not opened: a short one may become a long one.
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json",
            "accept-encoding": "identity",
            **kind,
        }
        answer = bytearray()
        traced = {"trace": closing_handshakes()}
        try:
            async with (
                httpx.AsyncClient(verify=await self._tls(), timeout=None, trust_env=False) as client,
                client.stream(
                    method, f"{self._access.url}{path}", content=body, headers=headers, extensions=traced
                ) as response,
            ):
                async for part in response.aiter_raw():
                    answer += part
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise DriverFailed(f"Kubernetes' answer has more than {ANSWER_BYTES_MAX} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = str(error)[:_REASON_CHARACTERS_MAX] or type(error).__name__
            raise DriverFailed(f"Kubernetes' API server {self._access.url} is not reached: {reason}") from error
        return response.status_code, bytes(answer)

    async def _tls(self) -> ssl.SSLContext:
        file = self._access.directory / "ca.crt"
        try:
            context = await asyncio.to_thread(ssl.create_default_context, cafile=str(file))
        except (OSError, ValueError) as error:
            raise DriverFailed(f"{file} cannot be used: {error}") from error
        # CAs of clusters lack fields that Python asks for since 3.13.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    async def _namespace_name(self) -> str:
        return self._namespace or await self._read("namespace")

    async def _read(self, name: str) -> str:
        file = self._access.directory / name
        try:
            text = (await asyncio.to_thread(_read_text, file)).strip()
        except (OSError, ValueError) as error:
            raise DriverFailed(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if not text:
            raise DriverFailed(f"{file} is empty")
        return text


def _read_text(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(FILE_BYTES_MAX).decode()


def _reason(status: int, answer: bytes) -> str:
    """What Kubernetes says in its `Status`, after the number."""
    try:
        found: Any = json.loads(answer)
        message = found["message"] if isinstance(found, dict) else ""
    except (ValueError, KeyError, RecursionError):
        message = ""
    said = " ".join(message.split())[:_REASON_CHARACTERS_MAX] if isinstance(message, str) else ""
    return f"{status} {said}".rstrip()
