"""Latency of a request."""
