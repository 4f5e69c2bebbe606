"""Holds: keep their status, and delete those that have expired."""
