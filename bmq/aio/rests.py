"""Rests between pieces of work that should not take all of something that others use too. Pure."""

from __future__ import annotations


def rest_after(worked_s: float, share: float, longest_s: float) -> float:
    """Seconds of rest behind so many of work, so that work takes `share` of the time: more than 0, at most 1.

    At most `longest_s`: what the work is for waits meanwhile, and the share may grow.
    """
    return min(longest_s, worked_s * (1 / share - 1))
