"""Text and bytes."""
import re


def _encodings(encoding):
    found = ("utf-8",) if encoding is None else encoding if isinstance(encoding, (tuple, list)) else (encoding,)
    if not found:
        raise ValueError("encoding cannot be empty")
    return found


def _first(change, encodings, errors):
    """The result of the first encoding that works; else the last one's error."""
    failed = None
    for name in encodings:
        try:
            return change(name, errors)
        except UnicodeError as error:
            failed = error
    raise failed


def _wrong(s):
    return TypeError("expected str, bytes, or bytearray not {}".format(type(s)))


def to_bytes(s, encoding=None, errors="strict"):
    """Bytes of text or bytes."""
    names = _encodings(encoding)
    if isinstance(s, (bytes, bytearray)):
        return bytes(s)
    if isinstance(s, str):
        return _first(s.encode, names, errors)
    raise _wrong(s)


def to_str(s, encoding=None, errors="strict", normalize=False):
    """Text of text or bytes."""
    names = _encodings(encoding)
    if isinstance(s, (bytes, bytearray)):
        s = _first(s.decode, names, errors)
    elif not isinstance(s, str):
        raise _wrong(s)
    if normalize:
        import unicodedata

        s = unicodedata.normalize("NFC", s)
    return s


to_unicode = to_str


def to_num(text):
    """A number if the text is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def to_none(text):
    """None for text without content."""
    return text if str(text).strip() else None


def is_quoted(value):
    """The quote around a text, or nothing."""
    mark = value[:1] if isinstance(value, str) else ""
    return mark if mark in ("'", '"') and value.endswith(mark) else ""


def dequote(value):
    return value[1:-1] if is_quoted(value) else value


def is_hex(value):
    try:
        return int(value, 16) is not None
    except (TypeError, ValueError):
        return False


# What a text may hold: printable ASCII and the usual controls.
_TEXT = bytes(range(32, 127)) + b"\n\r\t\f\b"


def is_binary(data):
    """Whether there is a NUL, or more than three tenths are no text."""
    if not data or not isinstance(data, (str, bytes)):
        return False
    data = to_bytes(data)
    if 0 in data:
        return True
    text = _TEXT
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data"
    else:
        cut = True
    if cut:
        text += bytes(range(128, 255))
    return len(data.translate(None, text)) > 0.3 * len(data)


def random(size=32):
    """Random text of letters, digits, `+` and `/`."""
    import base64
    import os

    return base64.b64encode(os.urandom(size)).decode()[:size]


def contains_whitespace(text):
    return re.search(r"\s", text) is not None


def human_to_bytes(size, default_unit="B", handle_metric=False):
    """`1.5 GiB` in bytes; 0 if it is no size."""
    number, unit = re.match(r"([0-9.]*)\s*(.*)$", str(size).strip()).groups()
    known = re.match(r"(?:b|([kmgtpezy])(i?b)?)$", (unit or default_unit).lower())
    number = to_num(number)
    if not known or isinstance(number, str):
        return 0
    prefix, suffix = known.groups()
    power = "kmgtpezy".index(prefix) + 1 if prefix else 0
    return int(number * (1000 if handle_metric and suffix == "b" else 1024) ** power)


def expr_match(line, expr):
    """Whether a text matches a glob or a regular expression."""
    import fnmatch

    try:
        return fnmatch.fnmatch(line, expr) or re.match(r"\A%s\Z" % expr, line) is not None
    except (TypeError, re.error):
        return False


def check_whitelist_blacklist(value, whitelist=None, blacklist=None):
    """Whether a value is in the one, unless that is empty, and not in the other."""
    listed = {}
    for name, given in (("blacklist", blacklist), ("whitelist", whitelist)):
        given = [given] if isinstance(given, str) and given else given or []
        if not hasattr(given, "__iter__"):
            raise TypeError("Expecting iterable {}, but got {} ({})".format(name, type(given).__name__, given))
        listed[name] = [expr_match(value, one) for one in given]
    return not any(listed["blacklist"]) and (not listed["whitelist"] or any(listed["whitelist"]))


def check_include_exclude(path_str, include_pat=None, exclude_pat=None):
    """Whether a path is wanted: patterns are globs, or regular expressions after `E@`; each may be a list."""
    import fnmatch

    def among(patterns):
        for one in patterns if isinstance(patterns, list) else [patterns]:
            if re.search(one[2:], path_str) if one.startswith("E@") else fnmatch.fnmatch(path_str, one):
                return True
        return False

    return (not include_pat or among(include_pat)) and not (exclude_pat and among(exclude_pat))


def get_context(template, line, num_lines=5, marker=None):
    """Lines around one line."""
    lines = template.splitlines()
    if line > len(lines):
        return template
    if marker:
        lines[line - 1] += marker
    first, last = max(line - 1 - num_lines, 0), line + num_lines
    shown = ["---"] + ["[...]"] * (first > 0) + lines[first:last] + ["[...]"] * (last < len(lines)) + ["---"]
    return "\n".join(shown)


def get_diff(a, b, *args, **kwargs):
    """What differs between two lists of lines, as a unified diff."""
    import difflib

    old, new = ([to_str(line, ("utf-8", "latin-1")) for line in lines] for lines in (a, b))
    return "".join(difflib.unified_diff(old, new, *args, **kwargs))


def camel_to_snake_case(camel_input):
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", camel_input).lower()


def snake_to_camel_case(snake_input, uppercamel=False):
    first, *others = snake_input.split("_")
    return (first.capitalize() if uppercamel else first) + "".join(map(str.capitalize, others))
