"""Pictures of a model's curves: what to draw, and drawing it in a terminal or as a picture file."""
