"""Endpoints and EndpointSlices of Services, and the Serving condition of pods."""
