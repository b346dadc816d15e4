"""Makes the authorizer of clients from the broker configs of Kafka's StandardAuthorizer."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.image import MetadataImage
from bmq.protocol.request_context import ANONYMOUS
from bmq.proxy.access import OPEN, Access
from bmq.security.authorizer import Decider, super_users_of
from bmq.server.broker_configs import kafka_configs
from bmq.server.settings import Settings

_log = structlog.get_logger("bmq.server")


def client_access(configs: BrokerConfigs, image: Callable[[], MetadataImage]) -> Access:
    """The authorizer. Without authorizer.class.name every client has every right. Raises InvalidConfig for super.users."""
    if not configs.value_of("authorizer.class.name"):
        return OPEN
    try:
        super_users = super_users_of(configs.value_of("super.users") or "")
    except ValueError as error:
        raise InvalidConfig(str(error)) from None
    if ANONYMOUS in super_users:
        _log.warning(
            "everybody_is_a_super_user", principal=ANONYMOUS, why="a client that does not log in has this name"
        )
    allows_without_acl = configs.value_of("allow.everyone.if.no.acl.found") == "true"
    return Access(Decider(super_users, allows_without_acl=allows_without_acl), lambda: image().acls)


def rest_access(settings: Settings, image: Callable[[], MetadataImage]) -> Access:
    """The authorizer of the REST API, which answers before the metadata is known. Raises InvalidConfig for super.users."""
    return client_access(BrokerConfigs(static=kafka_configs(settings)), image)
