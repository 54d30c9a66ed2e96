"""Arguments of functions."""
import re
import shlex
from collections import namedtuple

_ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")

# Words that are no text in YAML; all other identifiers are.
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none"}


def clean_kwargs(**kwargs):
    """Without what Salt adds: names that begin with `__`."""
    return {name: kwargs[name] for name in kwargs if not name.startswith("__")}


def invalid_kwargs(invalid_kwargs, raise_exc=True):
    """Complains about keywords that a function does not know."""
    from salt.exceptions import SaltInvocationError

    names = ["%s=%s" % item for item in invalid_kwargs.items()] if isinstance(invalid_kwargs, dict) else invalid_kwargs
    message = "The following keyword arguments are not valid: " + ", ".join(names)
    if raise_exc:
        raise SaltInvocationError(message)
    return message


def get_function_argspec(func, is_class_method=None):
    """Names and defaults of arguments, by the names of Python 2's `inspect`."""
    import inspect

    if not callable(func):
        raise TypeError("{} is not a callable".format(func))
    known = list(inspect.signature(inspect.unwrap(func)).parameters.values())
    named = [one for one in known if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    stars = {one.kind: one.name for one in known}
    return _ArgSpec(
        [one.name for one in named][bool(is_class_method) :],
        stars.get(inspect.Parameter.VAR_POSITIONAL),
        stars.get(inspect.Parameter.VAR_KEYWORD),
        tuple(one.default for one in named if one.default is not one.empty) or None,
    )


def arg_lookup(fun, aspec=None):
    """Arguments without and with a default."""
    spec = aspec or get_function_argspec(fun)
    cut = len(spec.args) - len(spec.defaults or ())
    return {"args": spec.args[:cut], "kwargs": dict(zip(spec.args[cut:], spec.defaults or ()))}


def yamlify_arg(arg):
    """The value that a word of a command line stands for; the word itself when it is meant to be text."""
    if not isinstance(arg, str) or arg.strip() in ("", "---", "...") or re.search(r"[\t\r\n]", arg):
        return arg
    if arg == "None":
        return None
    if arg.isidentifier() and arg.lower() not in _YAML_WORDS or re.match(r"\s*(?=\d*_)[\d_]+\s*$", arg):
        return arg
    try:
        from salt.utils import yaml

        value = yaml.safe_load(arg)
    except Exception:
        return arg
    if isinstance(value, (dict, list)):
        # Only in brackets: `a: b` and `- a` are text.
        wanted = "#" in arg or arg.startswith("{" if isinstance(value, dict) else "[")
    elif value is None:
        wanted = "#" not in arg and arg != "!"
    elif isinstance(value, str):
        wanted = "#" not in arg and (value or arg not in ("|", "!"))
    else:
        wanted = isinstance(value, (int, float)) or "#" in arg
    return value if wanted else arg


def parse_kwarg(string_):
    """Name and value of `name=value`."""
    name, equals, value = string_.partition("=")
    good = equals and not value.startswith("=") and "\n" not in value and re.match(r"(?!\d)\w[\w.-]*$", name)
    return (name, value) if good else (None, None)


def condition_input(args, kwargs):
    """One list of both; the keywords are a map at its end."""
    listed = [str(one) if isinstance(one, int) and len(str(one)) == 20 else one for one in args]
    if kwargs and isinstance(kwargs, dict):
        listed.append({"__kwarg__": True, **kwargs})
    return listed


def parse_input(args, condition=True, no_parse=None):
    """Words of a command line, `name=value` apart."""
    found, named = [], {}
    for arg in args:
        name, value = parse_kwarg(arg) if isinstance(arg, str) else (None, None)
        if name:
            named[name] = value if name in (no_parse or ()) else yamlify_arg(value)
        elif isinstance(arg, dict) and arg.pop("__kwarg__", False) is True:
            named.update(arg)
        else:
            found.append(yamlify_arg(arg))
    return condition_input(found, named) if condition else (found, named)


def shlex_split(s, **kwargs):
    """Splits text as a shell does; anything else stays."""
    return shlex.split(s, **kwargs) if isinstance(s, str) else s


def split_input(val, mapper=None):
    """A list, or the parts of a text with commas."""
    words = val if isinstance(val, list) else [word.strip() for word in str(val).split(",")]
    return [mapper(word) for word in words] if mapper else list(words)


def test_mode(**kwargs):
    """Whether `test=True` is among the keywords, in any case."""
    from salt.utils.data import is_true

    return any(is_true(value) for name, value in kwargs.items() if name.lower() == "test")


def format_call(fun, data, initial_ret=None, expected_extra_kws=(), is_class_method=None):
    """The arguments of a call from a map, as `args` and `kwargs`."""
    from salt.exceptions import SaltInvocationError

    ret = initial_ret or {}
    spec = get_function_argspec(fun, is_class_method)
    wanted = arg_lookup(fun, spec)
    needed = wanted["args"]
    given = [data[name] for name in needed if name in data]
    if len(given) < len(needed):
        count = "%d argument%s" % (len(needed), "s" * (len(needed) > 1))
        raise SaltInvocationError("%s takes at least %s (%d given)" % (fun.__name__, count, len(given)))
    ret["args"] = given
    ret["kwargs"] = {name: data.get(name, default) for name, default in wanted["kwargs"].items()}
    extra = [name for name in data if name not in spec.args and name not in expected_extra_kws]
    if spec.keywords:
        ret["kwargs"].update((name, data[name]) for name in extra)
    elif extra:
        *names, last = map("'{}'".format, extra)
        who = ret.get("full", "%s.%s" % (fun.__module__, fun.__name__))
        what = "%s and %s are invalid keyword arguments" % (", ".join(names), last) if names else last + " is an invalid keyword argument"
        raise SaltInvocationError("%s for '%s'" % (what, who))
    return ret


def prepare_kwargs(all_kwargs, class_init_kwargs):
    """Two maps of what is set: keywords that are for a class's `__init__`, and the rest."""
    given = [(name, value) for name, value in all_kwargs.items() if value is not None]
    inits = {name: value for name, value in given if name in class_init_kwargs}
    return inits, {name: value for name, value in given if name not in inits}


def get_function_name(func):
    return getattr(func, "__name__", str(func))
