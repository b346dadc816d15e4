"""One server whose clients log in by Kerberos, in clear text and in TLS, and what they have to be told.

`alice` and `operator-night`, which the rules make of the principal `ops/night`, are super users.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trustme

from bmq.dev.kdc import Kdc
from testing.processes import free_port
from testing.servers import BmqServer

SERVICE: Final = "kafka/localhost"
SUPER_USER: Final = "alice"
MAPPED, MAPPED_USER = "ops/night", "operator-night"
SESSION_MS: Final = 3_000
"""Of the listener with TLS; a login in clear text counts as long as its connection."""
RULES: Final = "RULE:[2:$1-$2](ops-.*)s/ops-/operator-/,DEFAULT"


class KerberosServer(BmqServer):
    """It has a copy of the keytab of SERVICE. `environment`: of its process, besides. `more`: Kafka's settings, over these."""

    def __init__(
        self,
        directory: Path,
        kdc: Kdc,
        environment: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        told = {"KRB5_CONFIG": str(kdc.krb5_conf), "BMQ_LOG_LEVEL": "debug", **(environment or {})}
        super().__init__(directory, told, has_extras=True)
        self.keytab = directory.with_name(f"{directory.name}.keytab")
        self.keytab.write_bytes(kdc.keytab(SERVICE).read_bytes())
        self.tls_port = free_port()
        authority = trustme.CA()
        self.trust = directory.with_name(f"{directory.name}-ca.pem")
        authority.cert_pem.write_to_path(str(self.trust))
        own = directory.with_name(f"{directory.name}-node.pem")
        own.touch(mode=0o600)
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(own))
        configs = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},SECURE://127.0.0.1:{self.tls_port}",
            "advertised.listeners": f"PLAINTEXT://localhost:{self.port},SECURE://localhost:{self.tls_port}",
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,SECURE:SASL_SSL",
            "listener.name.secure.ssl.keystore.location": str(own),
            "listener.name.secure.gssapi.connections.max.reauth.ms": str(SESSION_MS),
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": RULES,
            "bmq.sasl.kerberos.principal": kdc.full(SERVICE),
            "bmq.sasl.kerberos.keytab": str(self.keytab),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{SUPER_USER};User:{MAPPED_USER}",
            **(more or {}),
        }
        self._settings = directory.with_name(f"{directory.name}.toml")
        self._settings.write_text("[kafka]\n" + "".join(f"'{name}' = '{text}'\n" for name, text in configs.items()))

    @property
    def advertised(self) -> str:
        return self.address(is_tls=False)

    def address(self, *, is_tls: bool) -> str:
        """HOST:PORT of a listener. The principal names this host."""
        return f"localhost:{self.tls_port if is_tls else self.port}"

    def kafka_python(self, *, is_tls: bool = False, **more: Any) -> dict[str, Any]:
        """Settings; the ticket cache is that of this process's environment (testing.kdc.used_here)."""
        return {
            "bootstrap_servers": self.address(is_tls=is_tls),
            "security_protocol": "SASL_SSL" if is_tls else "SASL_PLAINTEXT",
            "ssl_cafile": str(self.trust),
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
            **more,
        }

    def java_file(self, kdc: Kdc, name: str, *, is_tls: bool) -> Path:
        """Properties of Java's clients, which log in from a keytab as the principal of this name."""
        settings = {
            "security.protocol": "SASL_SSL" if is_tls else "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{kdc.keytab(name)}" principal="{kdc.principal(name)}";',
        }
        if is_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trust)}
        path = kdc.directory / f"{name.replace('/', '-')}-{is_tls}.properties"
        path.write_text("".join(f"{one}={text}\n" for one, text in settings.items()))
        return path

    def _arguments(self) -> list[str]:
        arguments = super()._arguments()
        place = arguments.index("--listen")
        return [*arguments[:place], *arguments[place + 2 :], "--config", str(self._settings)]
