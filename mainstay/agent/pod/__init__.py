"""One pod on its node: lifecycle, containers, probes, volumes, and the status that is reported."""
