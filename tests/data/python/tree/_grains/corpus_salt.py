"""`__salt__` in grains."""


def run():
    try:
        return {"corpus_salt": __salt__["test.echo"]("called")}
    except Exception as error:
        return {"corpus_salt": type(error).__name__}
