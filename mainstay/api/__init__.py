"""What an object is: kinds, metadata, conditions, quantities, selectors, patches, defaults, validation.

Values and plain functions. Nothing here waits, reads the clock or uses the network. An object is a plain dictionary
as JSON has it; what is known about its kind is a declaration (kind.py).
"""
