"""Addresses of files: `salt://path?saltenv=name`."""
import re

_SALT = "salt://"


def _scheme(url):
    from urllib.parse import urlparse

    return urlparse(url).scheme


def parse(url):
    """Path and environment; other addresses as they are."""
    if not url.startswith(_SALT):
        return url, None
    path, _, saltenv = url[len(_SALT) :].partition("?saltenv=")
    cut = path.find("?env=")
    return (path.lstrip("/"), saltenv or None) if cut < 0 else (path[:cut].lstrip("/"), None)


def create(path, saltenv=None):
    """The address of a path in an environment."""
    from urllib.parse import urlunsplit

    return _SALT + urlunsplit(("", "", path.replace("\\", "/"), "saltenv=%s" % saltenv if saltenv else "", ""))


def _path(url):
    """What may begin with `|`; None if it is neither a path nor an address of ours."""
    scheme = _scheme(url)
    return parse(url)[0] if scheme == "salt" else None if scheme else url


def is_escaped(url):
    """Whether a path begins with `|`: nothing in it is special then."""
    return (_path(url) or "").startswith("|")


def _with_path(url, path):
    return create(path, parse(url)[1]) if _scheme(url) else path


def escape(url):
    path = _path(url)
    return url if path is None else _with_path(url, path if path.startswith("|") else "|" + path)


def unescape(url):
    path = _path(url)
    return url if path is None else _with_path(url, path.lstrip("|"))


def add_env(url, saltenv):
    return create(parse(url)[0], saltenv) if url.startswith(_SALT) else url


def split_env(url):
    """An address without its environment, and that."""
    path, saltenv = parse(url)
    return (create(path), saltenv) if url.startswith(_SALT) else (url, None)


def validate(url, protos):
    return _scheme(url) in protos


def strip_proto(url):
    return re.sub(r"^[^/:]+://", "", url)


def add_http_basic_auth(url, user=None, password=None, https_only=False):
    """With a name and a password in front of the host."""
    from urllib.parse import quote, urlsplit

    if user is None and password is None:
        return url
    parts = urlsplit(url)
    if https_only and parts.scheme != "https":
        raise ValueError("Basic Auth only supported for HTTPS")
    secret = quote(user, safe="") + ("" if password is None else ":" + quote(password, safe=""))
    return parts._replace(netloc="%s@%s" % (secret, parts.netloc)).geturl()


def redact_http_basic_auth(output):
    return re.sub(r"(?i)(https?)://.*@", r"\1://<redacted>@", output)
