"""Mainstay: a scheduler and control plane that explains every decision and can run any incident again."""

__version__ = "0.3.0.dev0"
