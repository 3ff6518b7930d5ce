"""A pipeline behind HTTP."""
