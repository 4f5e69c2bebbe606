"""The asyncio event loop in virtual time: tasks, timers, the trace of a run, and what fails in it."""
