"""An optional import that is not there."""
try:
    import corpus_is_not_installed

    HAS_LIB = True
except ImportError:
    HAS_LIB = False


def __virtual__():
    if not HAS_LIB:
        return False, "corpus_is_not_installed is missing"
    return True


def run():
    return corpus_is_not_installed.run()
