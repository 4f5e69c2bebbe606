"""What runs on a node and speaks for it: registers the node, keeps it alive, runs the pods that are bound to it.

For now there is only the pretend agent (pretend.py), which does everything but run containers.
"""
