"""Every test of this folder has a registry of its own."""

from registries import clean_registry

__all__ = ["clean_registry"]
