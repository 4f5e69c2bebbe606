"""What happened: decisions, and the history of revisions beyond what the store keeps.

Who decides writes with `DecisionRecorder` (decisions.py); who has the store writes with `HistoryRecorder` (history.py);
who wants to know reads with `Reader` (reader.py), from a living journal or a copy of one. The records and their rules
are in record.py, the files in files.py. Values of Secrets never get in (secret_mask.py).
"""
