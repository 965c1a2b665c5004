"""Latency curves fitted to noisy points and to published aggregates."""
