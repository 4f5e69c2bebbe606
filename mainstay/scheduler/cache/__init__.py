"""What the scheduler knows of nodes and pods: columns, assumed pods, and vectors per class of pods."""
