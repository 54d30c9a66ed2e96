"""Fails while it is loaded."""
raise ValueError("raised at the top")


def run():
    return "never"
