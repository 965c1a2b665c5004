"""Every figure of the paper beside what this program makes of it."""
