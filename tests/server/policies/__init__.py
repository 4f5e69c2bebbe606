"""Admission policies in a server in process."""
