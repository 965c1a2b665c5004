"""The public Python API of studies: many scenarios planned, and what they answer."""
