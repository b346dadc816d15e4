"""An nginx of this test's own, with TLS, before several gateways."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import trustme

from testing.processes import ManagedProcess, eventually, free_port

START_S = 20.0

CONFIG = """
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
daemon off;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    upstream gateways {{
{servers}
    }}
    limit_req_zone $binary_remote_addr zone=limited:1m rate=1r/m;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {directory}/tls.pem;
        ssl_certificate_key {directory}/tls.key;
        grpc_read_timeout 1h;
        grpc_send_timeout 1h;
        client_body_timeout 1h;
        client_max_body_size 0;
        location /bmq.gateway.v1.Admin/ {{
            limit_req zone=limited burst=2 nodelay;
            limit_req_status 429;
            grpc_pass grpc://gateways;
        }}
        location / {{
            grpc_pass grpc://gateways;
        }}
    }}
}}
"""


class Nginx:
    """`upstreams`: addresses of gateways. `address` is where it listens, `ca` the PEM file that its clients trust."""

    def __init__(self, directory: Path, upstreams: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        self.ca = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
        (directory / "tls.pem").write_bytes(chain)
        certificate.private_key_pem.write_to_path(directory / "tls.key")
        self.port = free_port()
        servers = "\n".join(f"        server {one} max_fails=1 fail_timeout=60s;" for one in upstreams)
        config = directory / "nginx.conf"
        config.write_text(CONFIG.format(directory=directory, port=self.port, servers=servers))
        found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        assert found, "no nginx found: run deploy/dev/install-tools.sh nginx as root"
        command = [found, "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(config)]
        self.process = ManagedProcess("nginx", command, directory / "nginx.log")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process.start()
        eventually(self._answers, START_S, f"nginx takes connections{self.process}")

    def _answers(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.ca))
        try:
            with (
                socket.create_connection(("127.0.0.1", self.port), timeout=1) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1"),
            ):
                return True
        except OSError:
            return False

    def close(self) -> None:
        if self.process.is_running:
            self.process.stop(START_S)
