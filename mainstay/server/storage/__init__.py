"""Objects in the store: reads, writes, admission, and what is committed together with a write."""
