"""The request chain: from HTTP to a verb on a kind, and from its outcome back to an answer."""
