"""What would let a pod run: the smallest changes, each of them verified."""
