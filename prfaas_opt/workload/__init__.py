"""Distributions of request lengths."""
