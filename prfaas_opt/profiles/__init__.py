"""What a model costs on an instance: curves over length, KVCache by architecture, decode steps."""
