#!py
def run():
    """A pillar file in Python."""
    return {"corpus_py": {"id": __opts__["id"], "kernel": __grains__["kernel"], "called": __salt__["test.echo"]("pillar")}}
