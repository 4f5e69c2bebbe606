"""Admission policies: rules in CEL that users write, followed by every API server and evaluated with each write."""
