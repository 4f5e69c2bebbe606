"""What an agent serves to the API server: logs, exec, ports, and resource usage."""
