"""Common Expression Language: compile rules that users write, and evaluate them over objects, at a bounded cost."""
