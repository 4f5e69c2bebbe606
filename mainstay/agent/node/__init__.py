"""The node itself: its Node object and Lease, the addresses of its pods, and all its pod workers."""
