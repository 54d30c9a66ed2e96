"""Lists of arguments."""


def none():
    pass


def one(a):
    pass


def many(a, b, c=1, d="x", e=None):
    pass


def stars(a, *args, **kwargs):
    pass


def args_only(*args):
    pass


def kwargs_only(**kwargs):
    pass


def keyword_only(a, *, b, c=2):
    pass


def positional_only(a, b=1, /, c=2):
    pass


def annotated(a: int, b: "list[str]" = None) -> dict:
    return {}


def odd_defaults(a=(1, 2), b={"k": [1]}, c=len, d=b"x", e=1.5, f=True):
    pass
