"""One file per Kafka API. Importing a file registers its handler."""

from importlib import import_module
from pkgutil import iter_modules


def load_all() -> None:
    """Register every handler."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
