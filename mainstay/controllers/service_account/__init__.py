"""The default service account and the root CA ConfigMap of each namespace."""
