"""Returns that are not what a state returns."""


def _ret(name):
    return {"name": name, "result": True, "changes": {}, "comment": "fine"}


def nothing(name):
    pass


def text(name):
    return "a text"


def true(name):
    return True


def listing(name):
    return [_ret(name)]


def empty(name):
    return {}


def no_name(name):
    ret = _ret(name)
    del ret["name"]
    return ret


def no_result(name):
    ret = _ret(name)
    del ret["result"]
    return ret


def no_changes(name):
    ret = _ret(name)
    del ret["changes"]
    return ret


def no_comment(name):
    ret = _ret(name)
    del ret["comment"]
    return ret


def result_text(name):
    return dict(_ret(name), result="yes")


def result_number(name):
    return dict(_ret(name), result=1)


def result_zero(name):
    return dict(_ret(name), result=0)


def changes_none(name):
    return dict(_ret(name), changes=None)


def changes_list(name):
    return dict(_ret(name), changes=["a"])


def changes_text(name):
    return dict(_ret(name), changes="changed")


def comment_list(name):
    return dict(_ret(name), comment=["one", "two"])


def comment_dict(name):
    return dict(_ret(name), comment={"a": 1})


def comment_none(name):
    return dict(_ret(name), comment=None)


def comment_number(name):
    return dict(_ret(name), comment=5)


def comment_bytes(name):
    return dict(_ret(name), comment=b"bytes")


def comment_mixed(name):
    return dict(_ret(name), comment=["one", 2])


def extra(name):
    return dict(_ret(name), data={"k": "v"}, more=[1])


def other_name(name):
    return dict(_ret(name), name="somebody else")


def name_number(name):
    return dict(_ret(name), name=7)


def test_true(name):
    return dict(_ret(name), result=None)


def tuple_(name):
    return (True, "comment")


def generator(name):
    yield _ret(name)


def tuples_inside(name):
    return dict(_ret(name), changes={"t": (1, 2), "s": {"one"}})


def int_keys(name):
    return dict(_ret(name), changes={1: "one", None: "none"})


def objects(name):
    return dict(_ret(name), changes={"o": ValueError("as a value")})


def subclass(name):
    import collections

    return collections.OrderedDict(_ret(name))
