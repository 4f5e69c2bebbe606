"""PodDisruptionBudgets: keep their status, from which evictions are allowed or refused."""
