"""The work queue: deduplicates keys, orders them fairly, and delays retries. work_queue.py is what loops use."""
