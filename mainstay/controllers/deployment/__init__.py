"""Deployments: move pods from one template to the next, a few at a time, and keep their number."""
