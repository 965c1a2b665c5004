"""The version, in a module that no other one stands above."""

__version__ = "0.1.0"
