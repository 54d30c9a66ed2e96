"""Returns that are no grains."""


def nothing():
    return None


def text():
    return "text"


def listing():
    return [["corpus_pairs", 1]]


def empty():
    return {}


def good():
    return {"corpus_beside_nondict": 1}
