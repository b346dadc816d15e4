"""What a page of the built site would load from other hosts. Decisions only."""

from __future__ import annotations

import re
from typing import Final

_ASSET: Final = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|object)\b[^>]*?\s(?:src|href|data)=[\"']?((?:https?:)?//[^\s\"'>]+)",
    re.IGNORECASE,
)


def foreign_assets(page: str) -> list[str]:
    """Addresses, in the page's order. Links that a reader follows are not among them."""
    return _ASSET.findall(page)
