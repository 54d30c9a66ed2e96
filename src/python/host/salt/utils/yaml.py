"""YAML as halite reads and writes it, without PyYAML."""
from collections import OrderedDict as _OrderedDict

from halite.main import ask as _ask


class YAMLError(Exception):
    """Not YAML."""


class scanner:
    """The place of an exception."""

    class ScannerError(YAMLError):
        pass


class parser:
    """The place of another one. halite does not tell them apart: whoever expects either gets this one."""

    class ParserError(scanner.ScannerError):
        pass


class SaltYamlSafeLoader:
    """To be named as a loader; there is only this one."""


class OrderedDumper:
    """To be named as a dumper; they are all the same."""


SafeOrderedDumper = IndentedSafeOrderedDumper = OrderedDumper


def safe_load(stream, Loader=SaltYamlSafeLoader):
    """The value of a document: text, bytes or a file."""
    text = stream.read() if hasattr(stream, "read") else stream
    if isinstance(text, (bytes, bytearray)):
        text = text.decode("utf-8")
    try:
        return _ask("yaml_load", text)
    except ValueError as error:
        raise parser.ParserError(str(error)) from None


load = safe_load


def safe_dump(data, stream=None, **options):
    """Text, or nothing if it is written to a stream. Innermost lists and maps are in brackets unless
    `default_flow_style` says that all are, or none."""
    sort = options.get("sort_keys", True) and not isinstance(data, _OrderedDict)
    text = _ask("yaml_dump", data, options.get("default_flow_style"), bool(sort), options.get("indent") or 0)
    return text if stream is None else (stream.write(text), None)[1]


dump = safe_dump


def get_dumper(dumper_name):
    return {"OrderedDumper": OrderedDumper, "SafeOrderedDumper": OrderedDumper, "IndentedSafeOrderedDumper": OrderedDumper}.get(dumper_name)
