"""Returns of all types."""
import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


Pair = collections.namedtuple("Pair", "left right")


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    pass


class Mapping(dict):
    pass


class Opaque:
    def __repr__(self):
        return "<opaque>"


def point():
    return Point(1)


def point_dict():
    return dataclasses.asdict(Point(1))


def pair():
    return Pair("l", "r")


def set_one():
    return {"only"}


def frozen():
    return frozenset(["only"])


def bytes_text():
    return b"bytes"


def bytes_binary():
    return b"\xff\x00\xfe"


def bytes_inside():
    return {"k": [b"in", {"d": b"deep"}]}


def bytes_key():
    return {b"key": 1}


def date():
    return datetime.date(2024, 2, 29)


def moment():
    return datetime.datetime(2024, 2, 29, 12, 30, 5)


def moment_zone():
    return {"at": datetime.datetime(2024, 2, 29, 12, 30, 5, 123456, tzinfo=datetime.timezone.utc)}


def delta():
    return datetime.timedelta(hours=1)


def money():
    return decimal.Decimal("1.10")


def big():
    return 2**100


def negative():
    return [-(2**63), 2**63, 2**64 - 1, 2**64]


def floats():
    return [1.0, 0.1, 1e100, -0.0, 1.5e-7, 100000000000000000000.0]


def nan():
    return [float("inf"), float("-inf")]


def unicode_text():
    return {"grüße": "\u4f60\u597d \U0001f600", "e": "e\u0301"}


def surrogate():
    return "lone \udc80"


def control():
    return "tab\tnewline\nnull\x00bell\x07"


def none_key():
    return {None: 1}


def int_keys():
    return {1: "one", 2: {3: "three"}}


def mixed_keys():
    return {1: "int", "1": "text"}


def bool_keys():
    return {True: "yes", False: "no"}


def float_keys():
    return {1.5: "half"}


def tuple_keys():
    return {(1, 2): "pair"}


def ordered():
    return collections.OrderedDict([("z", 1), ("a", 2)])


def default():
    made = collections.defaultdict(list)
    made["k"].append("v")
    return made


def counter():
    return collections.Counter("aab")


def tuples():
    return (1, ("two", [3]))


def span():
    return range(3)


def views():
    return {"a": 1}.keys()


def queue():
    return collections.deque([1, 2])


def path():
    return pathlib.PurePosixPath("/a/b")


def colour():
    return Colour.RED


def level():
    return Level.LOW


def text():
    return Text("sub")


def mapping():
    return Mapping(a=Text("b"))


def opaque():
    return Opaque()


def opaque_inside():
    return {"k": [Opaque()]}


def exception():
    return ValueError("as a value")


def ident():
    return uuid.UUID(int=1)


def kind():
    return int


def function():
    return {"f": len}


def true():
    return True


def empty():
    return {"dict": {}, "list": [], "text": "", "none": None, "zero": 0, "false": False}


def nested(depth=60):
    value = "bottom"
    for _ in range(int(depth)):
        value = [value]
    return value


def cycle():
    value = []
    value.append(value)
    return value


def shared():
    one = ["same"]
    return [one, one]


def long():
    return "x" * 5000
