"""Jobs: run pods until enough of them have succeeded, and count each exactly once."""
