"""Does not load."""
import corpus_is_not_installed


def run():
    return {"corpus_broken": "never"}
