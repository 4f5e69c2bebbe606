"""Requests that only a node's agent can answer: logs, exec, ports, resource usage."""
