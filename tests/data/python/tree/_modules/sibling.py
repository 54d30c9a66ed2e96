"""Imports a neighbour as a plain Python module, without Salt's dunders."""
import shape_plain


def run():
    return [shape_plain.greet("sibling"), shape_plain.__name__, "__salt__" in vars(shape_plain)]
