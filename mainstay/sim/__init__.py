"""Runs Mainstay, or any asyncio program, in virtual time with seeded chance: the same seed gives the same run.

Start at simulation.py. Nothing is imported here: the pytest plugin must stay cheap for those who do not use it.
"""
