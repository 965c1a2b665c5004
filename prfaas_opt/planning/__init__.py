"""The planning problem, its exact search, proof, evaluation and description."""
