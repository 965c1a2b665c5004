"""The equations of the paper, and exact means over lengths."""
