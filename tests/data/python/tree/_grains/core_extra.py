"""Names with colons and dots."""


def run():
    return {"corpus:colon": "c", "corpus.dot": "d", "corpus_nested": {"list": [{"k": "v"}]}}
