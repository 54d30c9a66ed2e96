"""A hard import of something that is not there."""
import corpus_is_not_installed


def run():
    return corpus_is_not_installed.run()
