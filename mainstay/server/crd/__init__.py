"""CustomResourceDefinitions: serve the kinds they define, keep their status, clean up after them."""
