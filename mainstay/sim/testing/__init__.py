"""For tests of one's own controllers: what `mainstay.sim` gives, besides the cluster itself (cluster.py)."""
