"""Flow control: which request is handled next when there are too many."""
