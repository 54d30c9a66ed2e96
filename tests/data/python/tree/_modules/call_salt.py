"""The forms in which modules call others."""


def index():
    return __salt__["test.echo"]("by index")


def keywords():
    return __salt__["test.arg"]("a", 1, key="value", flag=True)


def get():
    return __salt__.get("test.echo")("by get")


def get_missing():
    return __salt__.get("corpus.missing", "default")


def contains():
    return ["test.ping" in __salt__, "corpus.missing" in __salt__, "shape_plain.greet" in __salt__, "virt_named.run" in __salt__, "virt_attr.run" in __salt__]


def attribute():
    return __salt__.test.echo("by attribute")


def missing():
    return __salt__["corpus.missing"]()


def missing_caught():
    try:
        __salt__["corpus.missing"]()
    except KeyError as error:
        return [type(error).__name__, str(error), error.args[0] if error.args else None]


def wrong_arguments():
    try:
        __salt__["shape_plain.add"](1)
    except TypeError as error:
        return str(error)


def own():
    return [__salt__["shape_plain.greet"]("you"), __salt__["virt_named.run"](), __salt__["pack_three.run"](5)]


def listed():
    names = list(__salt__)
    return ["test.ping" in names, "shape_plain.greet" in names, len(__salt__) > 100, "test.ping" in __salt__.keys()]


def named():
    return [__salt__["shape_plain.greet"].__name__, (__salt__["shape_plain.greet"].__doc__ or "").strip(), callable(__salt__["test.ping"])]


def deep(level=5):
    level = int(level)
    return level if level < 1 else [__salt__["call_salt.deep"](level - 1)]
