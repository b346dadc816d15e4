"""ApiVersions: the APIs, versions and features that this server supports, from which clients choose.

Finalized features are those of this release and those in the metadata log. Features change what clients do (transaction.version
enables another transaction protocol), so an unsupported one must not be in the answer. Sources: KIP-35, KIP-511, KIP-584,
KIP-1022, KIP-1242.
"""

from __future__ import annotations

import re
from typing import Final

from bmq.metadata.features import CLIENT_FEATURES, level_in_force
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS, handles
from bmq.proxy.services import Services

_SOFTWARE_FROM_VERSION: Final = 3
_LEVEL_ZERO_FROM_VERSION: Final = 4
_SERVER_FROM_VERSION: Final = 5
_NO_NODE: Final = -1
_TELEMETRY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""APIs that are listed only while clients' metrics are wanted: every client that sees them uses them, and some log that."""
_FEATURE_LEVEL_MIN: Final = 1
_SOFTWARE_PATTERN: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS)
async def api_versions(request: ApiVersionsRequest, context: RequestContext, services: Services) -> ApiVersionsResponse:
    """Answer ApiVersions 0-5. The connection itself answers other versions, in the format of version 0."""
    version = context.api_version
    if version >= _SOFTWARE_FROM_VERSION and not _is_software_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = services.controller.image
    if version >= _SERVER_FROM_VERSION and (
        (request.cluster_id is not None and request.cluster_id != image.cluster_id)
        or request.node_id not in (_NO_NODE, services.node.node_id)
    ):
        # The address belongs to another server than the one that the client expects: it has to bootstrap again.
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    levels = {name: (_FEATURE_LEVEL_MIN, level) for name, level in image.features.items()}
    features = sorted((levels | CLIENT_FEATURES).items())
    in_force = {name: level_in_force(image.features, name) for name, _ in features}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=api.advertised_min, max_version=api.version_max)
            for key, api in sorted(context.apis.items())
            if (key in HANDLERS or key in HOT_HANDLERS)
            and (key not in _TELEMETRY or services.telemetry.is_wanted(image))
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=level)
            for name, (lowest, level) in features
            # Older clients cannot read a level of 0.
            if lowest >= _FEATURE_LEVEL_MIN or version >= _LEVEL_ZERO_FROM_VERSION
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in in_force.items()
            if level
        ],
    )


def _is_software_valid(request: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE_PATTERN.fullmatch(text) is not None
        for text in (request.client_software_name, request.client_software_version)
    )
