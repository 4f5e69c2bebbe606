"""Tests of the language that rules are written in."""
