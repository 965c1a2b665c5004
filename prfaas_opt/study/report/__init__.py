"""What the rows of a study answer: the best of them, where limits change, what each axis does, and where it pays."""
