"""One source for Python 2 and 3: what code with `salt.ext.six` uses, for Python 3."""
import importlib as _importlib
import io as _io
import sys as _sys
import types as _types

PY2, PY3, PY34 = False, True, True
MAXSIZE = _sys.maxsize
string_types, integer_types, class_types = (str,), (int,), (type,)
text_type, binary_type = str, bytes
StringIO, BytesIO = _io.StringIO, _io.BytesIO
unichr, int2byte, byte2int, indexbytes = chr, lambda number: bytes((number,)), lambda data: data[0], lambda data, at: data[at]
next = advance_iterator = next
callable = callable
Iterator = object


def u(s):
    return s


def b(s):
    return s.encode("latin-1")


def ensure_str(s, encoding="utf-8", errors="strict"):
    return s.decode(encoding, errors) if isinstance(s, bytes) else s


ensure_text = ensure_str


def ensure_binary(s, encoding="utf-8", errors="strict"):
    return s.encode(encoding, errors) if isinstance(s, str) else s


def iterkeys(d, **kwargs):
    return iter(d.keys(**kwargs))


def itervalues(d, **kwargs):
    return iter(d.values(**kwargs))


def iteritems(d, **kwargs):
    return iter(d.items(**kwargs))


viewkeys, viewvalues, viewitems = dict.keys, dict.values, dict.items


def reraise(tp, value=None, tb=None):
    raise (tp() if value is None else value).with_traceback(tb)


def raise_from(value, from_value):
    raise value from from_value


def add_metaclass(metaclass):
    """Makes a class anew, of another kind."""

    def decorate(cls):
        space = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        return metaclass(cls.__name__, cls.__bases__, space)

    return decorate


def with_metaclass(meta, *bases):
    """A base whose classes are of a kind."""
    return meta("with_metaclass", bases or (object,), {})


def python_2_unicode_compatible(klass):
    return klass


# Names of Python 2, and where they are now; a colon is before a name in a module.
_MOVED = {
    "builtins": "builtins", "configparser": "configparser", "copyreg": "copyreg", "cPickle": "pickle", "html_entities": "html.entities",
    "html_parser": "html.parser", "http_client": "http.client", "http_cookiejar": "http.cookiejar", "http_cookies": "http.cookies",
    "BaseHTTPServer": "http.server", "email_mime_multipart": "email.mime.multipart", "email_mime_text": "email.mime.text", "queue": "queue",
    "socketserver": "socketserver", "urllib_parse": "urllib.parse", "urllib_error": "urllib.error", "winreg": "winreg",
    "xmlrpc_client": "xmlrpc.client", "range": "builtins:range", "xrange": "builtins:range", "map": "builtins:map", "zip": "builtins:zip",
    "filter": "builtins:filter", "input": "builtins:input", "reduce": "functools:reduce", "zip_longest": "itertools:zip_longest",
    "filterfalse": "itertools:filterfalse", "shlex_quote": "shlex:quote", "getcwd": "os:getcwd", "intern": "sys:intern",
    "reload_module": "importlib:reload", "StringIO": "io:StringIO", "cStringIO": "io:StringIO", "UserDict": "collections:UserDict",
    "collections_abc": "collections.abc",
}  # fmt: skip
class _Moves(_types.ModuleType):
    """A module whose names are imported when they are used."""

    __path__ = []

    def __init__(self, name, places):
        super().__init__(name)
        self._places = places

    def __getattr__(self, name):
        if name not in self._places:
            raise AttributeError("%s has no %s" % (self.__name__, name))
        module, _, inner = self._places[name].partition(":")
        found = _importlib.import_module(module)
        return getattr(found, inner) if inner else found


class _Moved(_types.ModuleType):
    """Another module by this name, imported when it is used."""

    def __init__(self, name, place):
        super().__init__(name)
        self._place = place

    def __getattr__(self, name):
        return getattr(_importlib.import_module(self._place), name)


def _install(name, places):
    """Makes the module, and those below it, known to `import`."""
    made = _sys.modules[name] = _Moves(name, places)
    for inner, place in places.items():
        if ":" not in place:
            _sys.modules["%s.%s" % (name, inner)] = _Moved("%s.%s" % (name, inner), place)
    return made


moves = _install(__name__ + ".moves", _MOVED)
moves.urllib = _install(__name__ + ".moves.urllib", {name: "urllib." + name for name in ("parse", "error", "request", "response")})
