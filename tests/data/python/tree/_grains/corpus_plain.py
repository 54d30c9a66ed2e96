"""Plain grains."""


def main():
    return {"corpus_plain": "plain", "corpus_number": 5, "corpus_list": ["a", "b"], "corpus_map": {"k": {"d": "deep"}}}


def second():
    return {"corpus_second": True}


def _private():
    return {"corpus_private": "never"}
