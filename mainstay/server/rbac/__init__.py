"""Roles and who has them: evaluated, guarded against escalation, and the ones that every cluster begins with."""
