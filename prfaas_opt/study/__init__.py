"""Many scenarios: where they come from, how they are planned, and what is kept of them."""
