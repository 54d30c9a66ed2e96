"""The middle."""
LEVEL = "deep"
