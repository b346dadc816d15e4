"""Handlers of the internal listener: one file per API or family of APIs. Importing them registers them."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Import every module here."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
