"""All that is said of a workload, joined around one object and one generation, and what follows from it."""
