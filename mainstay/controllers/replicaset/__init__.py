"""ReplicaSets: keep the number of pods equal to spec.replicas."""
