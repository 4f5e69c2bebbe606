"""Tests. The tree mirrors that of mainstay/."""
