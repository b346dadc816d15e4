"""Views: which topics may be shown, and what a view cannot do as it has no log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.metadata.view_configs import VIEW_FILTER, VIEW_OF
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic

VIEWS_PER_TOPIC_MAX: Final = 100
"""Views of one topic: each that is read filters its records once more."""
_DEFAULT: Final = -1


def base_of(image: MetadataImage, topic: CreatableTopic, configs: Mapping[str, str], made: Counter[str]) -> TopicImage:
    """The topic that a new view shows. `made`: views that this request makes, by base.

    Raises InvalidConfig, KafkaError INVALID_PARTITIONS, INVALID_REQUEST, POLICY_VIOLATION.
    """
    name = configs[VIEW_OF].strip()
    if name == topic.name:
        raise InvalidConfig(f"A view cannot show itself: {VIEW_OF} is {name}")
    base = image.topics.get(name)
    if base is None:
        raise InvalidConfig(f"There is no topic {name!r} that a view could show")
    if base.view is not None:
        raise InvalidConfig(f"'{name}' is a view itself: make one of '{base.view.base_name}'")
    if base.is_internal:
        raise InvalidConfig(f"'{name}' is an internal topic, which views do not show")
    if topic.assignments:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A view has the partitions of '{name}' and is not assigned to nodes."
        )
    if topic.num_partitions not in (_DEFAULT, len(base.partitions)):
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"A view has the partitions of '{name}', which are {len(base.partitions)}: ask for that number, or leave it out.",
        )
    if len(image.views_of(name)) + made[name] >= VIEWS_PER_TOPIC_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"'{name}' has {VIEWS_PER_TOPIC_MAX} views, which is the limit.")
    return base


def require_log(topic: TopicImage) -> None:
    """Raises KafkaError POLICY_VIOLATION for a view."""
    if topic.view is not None:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"'{topic.name}' is a view and has no log of its own: its partitions are those of '{topic.view.base_name}'.",
        )


def require_unviewed(topic_name: str, views: Iterable[TopicImage]) -> None:
    """Raises KafkaError POLICY_VIOLATION for a topic that is shown by these views: they would have nothing to show."""
    names = sorted(view.name for view in views)
    if names:
        shown = ", ".join(f"'{name}'" for name in names[:3]) + (", ..." if len(names) > 3 else "")
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"'{topic_name}' has views: delete {shown} first.")


def require_view_unchanged(changed: Iterable[str]) -> None:
    """Raises InvalidConfig where the configs that make a topic a view would change."""
    for name in changed:
        if name in (VIEW_OF, VIEW_FILTER):
            raise InvalidConfig(f"{name} is set when a topic is created, and stays: make another view")
