"""Another placement policy on recorded decisions: does the record hold, what would differ, and with what effect."""
