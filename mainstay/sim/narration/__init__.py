"""A run beside the timeline that a text tells: which step happened when, to which object, by which view and reason.

A scenario declares the steps (steps.py). They are found in what the run has recorded, its history and its journal
(facts.py), and shown side by side (text.py). Nothing is assumed: a step that the record does not show has not happened.
"""
