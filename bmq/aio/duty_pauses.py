"""Pauses between pieces of work, so that the work takes only a share of what others use too. Pure."""

from __future__ import annotations


def pause_after(worked_s: float, share: float, longest_s: float) -> float:
    """How long to pause after `worked_s` seconds of work, in seconds, so that the work takes `share` (0 to 1, not 0) of the time.

    The pause is at most `longest_s`, even if the work then takes a larger share.
    """
    return min(longest_s, worked_s * (1 / share - 1))
