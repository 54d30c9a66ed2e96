"""An outputter."""


def output(data, **kwargs):
    return "\n".join("%s => %s" % pair for pair in sorted(data.items()))
