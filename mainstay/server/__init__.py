"""The API server: what speaks Kubernetes to the outside, over the store."""
