"""Takes the place of grains that are there, and of some in the minion's configuration."""


def run():
    return {"virtual": "corpus machine", "corpus_configured": "from python", "corpus_roles": ["from python"]}
