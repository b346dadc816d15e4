"""Access to the REST address: its TLS, its logins, and the warnings at the start about both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from bmq.admin.rest.authentication import (
    BASIC,
    BEARER,
    Application,
    Authentication,
    PasswordRefused,
    PasswordUnavailable,
)
from bmq.admin.rest.host_names import LOCALHOST, HostCheck
from bmq.admin.rest.security_settings import ANY_HOST, RestProtocol
from bmq.log.clock import Clock
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.errors import BmqError
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.sasl_logins import SaslLogins
from bmq.security.bearer import BearerVerifier
from bmq.security.listener_security import PLAIN, ListenerSecurity, SecurityProtocol
from bmq.security.listeners import JAAS, LISTENER_PREFIX, REST
from bmq.security.sasl.jaas import plain_users
from bmq.security.sasl.steps import Accepted, Rejected, Unavailable
from bmq.server.broker_configs import kafka_configs
from bmq.server.login_threads import LoginThreads, sasl_logins
from bmq.server.served_certificate import FILES_CHECK_INTERVAL_S, ServedCertificate
from bmq.server.setting_checks import is_loopback
from bmq.server.settings import Settings, split_address
from bmq.server.tls import principal_by, tls_files
from bmq.server.token_file import TokenFile

_log = structlog.get_logger("bmq.server")
_PREFIX: Final = f"{LISTENER_PREFIX}{REST.lower()}."
_JAAS: Final = f"{_PREFIX}{PLAIN.lower()}.{JAAS}"


class WrongRestSecurity(BmqError):
    """The REST address cannot be served with these settings; the message is one sentence."""


class RestSecurity:
    """Reads all its files when it is made.

    `image`: returns the newest metadata. `are_users_known`: returns whether the metadata is there; it is not called again
    after it was true. `tokens`: the check of bearer tokens that bmq did not make; None: the check of OAUTHBEARER logins, if
    there is one.

    Raises WrongRestSecurity, WrongTls, BadTokenFile.
    """

    def __init__(
        self,
        settings: Settings,
        image: Callable[[], MetadataImage],
        are_users_known: Callable[[], bool],
        clock: Clock,
        tokens: BearerVerifier | None = None,
    ) -> None:
        self._settings = settings
        try:
            self._schemes = settings.rest_security.schemes()
            self._host_names = settings.rest_security.hosts()
            jaas_users = plain_users(settings.kafka[_JAAS]) if _JAAS in settings.kafka else {}
        except ValueError as error:
            raise WrongRestSecurity(f"the REST address: {error}") from None
        self._refuse_half_set()
        self._threads = LoginThreads()
        self._certificate: ServedCertificate | None = None
        self.listener_socket = ListenerSocket(ListenerSecurity(REST, SecurityProtocol.SSL))
        if settings.rest_security.protocol == RestProtocol.HTTPS:
            files = tls_files(settings.kafka, REST, has_own_names=False)
            self._certificate = ServedCertificate(files, partial(setattr, self.listener_socket, "context"))
            self._certificate.first()
            self.listener_socket.principal_of = principal_by(files.rules)
        configs = BrokerConfigs(static=kafka_configs(settings))
        logins = sasl_logins(self._threads, image, clock, configs)
        self._failure_delay_s = logins.failure_delay_s
        self._passwords = Passwords(logins, jaas_users, are_users_known) if BASIC in self._schemes else None
        others = tokens or self._threads.bearer
        file = settings.rest_security.tokens_file
        self._token_file = TokenFile(Path(file), clock, others) if file else None
        self._tokens: BearerVerifier | None = self._token_file or others
        if BEARER in self._schemes and self._tokens is None:
            raise WrongRestSecurity(
                "the REST address: rest_security.logins has bearer, which needs rest_security.tokens_file; "
                "`bmq token create` writes it; or sasl.oauthbearer.jwks.endpoint.url"
            )

    @property
    def scheme(self) -> str:
        return self._settings.rest_security.protocol.value

    def guarded(self, application: Application, refused: Callable[[str, str], None]) -> Application:
        """The application behind the checks of hosts and logins that the settings ask for."""
        logins = Authentication(
            application,
            passwords=self._passwords,
            tokens=self._tokens if BEARER in self._schemes else None,
            failure_delay_s=self._failure_delay_s,
            refused=refused,
        )
        return HostCheck(logins, self._known_hosts(), refused) if self._checks_hosts() else logins

    def _checks_hosts(self) -> bool:
        """On loopback, where neither a certificate nor a login keeps pages of other sites out, or where names are set."""
        if self._host_names:
            return ANY_HOST not in self._host_names
        host = split_address(self._settings.rest)[0]
        is_only_here = host == LOCALHOST or is_loopback(host)
        return is_only_here and not self._schemes and self._certificate is None

    def _known_hosts(self) -> frozenset[str]:
        addresses = (self._settings.rest, self._settings.rest_advertised)
        return self._host_names | {split_address(address)[0] for address in addresses if address}

    def say_what_is_open(self, address: tuple[str, int]) -> None:
        """Warn about each part of the address that is not protected."""
        is_https = self._certificate is not None
        if self._schemes and not is_https:
            _log.warning(
                "logins_without_tls", listener=REST, mechanisms=",".join(sorted(self._schemes)), see="docs/CONFIG.md"
            )
        shows_certificate = self._certificate is not None and self._certificate.files.client_auth == "required"
        if is_loopback(address[0]) or self._schemes or shows_certificate:
            return
        why = (
            "every client is an operator, or User:ANONYMOUS where an authorizer decides; see rest_security in "
            "docs/CONFIG.md"
        )
        _log.warning("listener_is_open", listener=REST, address=f"{address[0]}:{address[1]}", why=why)

    async def watch(self) -> None:
        """Reload certificates, trust and tokens when their files change, until cancelled."""
        while True:
            await asyncio.sleep(FILES_CHECK_INTERVAL_S)
            if self._certificate is not None:
                await self._certificate.reload_if_changed()
            if self._token_file is not None:
                self._token_file.reload_if_changed()

    def close(self) -> None:
        """Check no more passwords."""
        self._threads.close()

    def _refuse_half_set(self) -> None:
        """Refuse settings that are only half set, because they would protect nothing."""
        is_https = self._settings.rest_security.protocol == RestProtocol.HTTPS
        for name in sorted(self._settings.kafka):
            if name.startswith(f"{_PREFIX}ssl.") and not is_https:
                raise WrongRestSecurity(f"{name} protects nothing: set rest_security.protocol = https")
        if _JAAS in self._settings.kafka and BASIC not in self._schemes:
            raise WrongRestSecurity(f"{_JAAS} protects nothing: set rest_security.logins = basic")
        if self._settings.rest_security.tokens_file and BEARER not in self._schemes:
            raise WrongRestSecurity("rest_security.tokens_file protects nothing: set rest_security.logins = bearer")


class Passwords:
    """Implements PasswordVerifier by the listeners' check of PLAIN. It runs in threads, and results are cached."""

    def __init__(self, logins: SaslLogins, jaas_users: Mapping[str, str], are_users_known: Callable[[], bool]) -> None:
        self._logins = logins
        self._jaas_users = jaas_users
        self._are_users_known = are_users_known
        self._were_users_known = False

    async def verify(self, user: str, password: str) -> str:
        """Implements PasswordVerifier.verify."""
        self._were_users_known = self._were_users_known or self._are_users_known()
        if not self._were_users_known and user not in self._jaas_users:
            raise PasswordUnavailable("the users are not known here yet; ask again in a moment")
        step: Any = await self._logins.check_password(self._jaas_users, user, password)
        match step:
            case Accepted(name):
                return str(name)
            case Rejected(reason):
                raise PasswordRefused(reason)
            case Unavailable(reason):
                raise PasswordUnavailable(reason)
        raise AssertionError(f"PLAIN ends with {type(step).__name__}")
