"""The parts of salt.utils that public modules import most."""
import os

import salt.utils
import salt.utils.args
import salt.utils.data
import salt.utils.files
import salt.utils.json
import salt.utils.odict
import salt.utils.path
import salt.utils.platform
import salt.utils.stringutils
import salt.utils.versions
import salt.utils.yaml
from salt.utils.dictupdate import update


def files():
    path = os.path.join(__opts__["corpus_dir"], "written")
    with salt.utils.files.fopen(path, "w") as stream:
        stream.write(salt.utils.stringutils.to_str("words\n"))
    with salt.utils.files.fopen(path, "rb") as stream:
        raw = stream.read()
    temporary = salt.utils.files.mkstemp()
    there = os.path.isfile(temporary)
    salt.utils.files.safe_rm(temporary)
    return [salt.utils.stringutils.to_unicode(raw), there, os.path.exists(temporary), salt.utils.files.is_empty(path)]


def paths():
    return [
        salt.utils.path.join("/a", "b", "../c"),
        os.path.basename(salt.utils.path.which("sh") or ""),
        salt.utils.path.which("no-such-program-of-corpus"),
        bool(salt.utils.path.which_bin(["no-such-program-of-corpus", "sh"])),
    ]


def system():
    return [salt.utils.platform.is_linux(), salt.utils.platform.is_windows(), salt.utils.platform.is_darwin(), salt.utils.platform.is_proxy()]


def arguments():
    def sample(a, b=1, *c, **d):
        return a

    spec = salt.utils.args.get_function_argspec(sample)
    return {
        "clean": salt.utils.args.clean_kwargs(a=1, __pub_fun="x", __id__="y"),
        "spec": [spec.args, spec.varargs, spec.keywords, list(spec.defaults)],
        "split": salt.utils.args.shlex_split("a 'b c' d"),
        "yamlify": [salt.utils.args.yamlify_arg(one) for one in ("1", "true", "text", "[1, 2]", "0x1F", "{a: b}")],
    }


def data():
    tree = {"a": {"b": [{"c": 1}]}, "x": "y"}
    return {
        "deep": salt.utils.data.traverse_dict_and_list(tree, "a:b:0:c"),
        "deep_none": salt.utils.data.traverse_dict_and_list(tree, "a:z", "none"),
        "dict": salt.utils.data.traverse_dict(tree, "a|b", delimiter="|"),
        "true": [salt.utils.data.is_true(one) for one in ("yes", "True", "1", 0, None, "on")],
        "list": salt.utils.data.is_list([]),
        "diff": salt.utils.data.compare_dicts({"a": 1, "b": 2}, {"b": 3, "c": 4}),
        "repack": salt.utils.data.repack_dictlist([{"a": 1}, {"b": 2}, "c"]),
        "decode": salt.utils.data.decode({b"k": [b"v"]}),
        "merged": update({"a": {"x": 1}}, {"a": {"y": 2}}),
    }


def formats():
    loaded = salt.utils.yaml.safe_load("a: 1\nb: [x, y]\n")
    return {
        "yaml": loaded,
        "dumped": salt.utils.yaml.safe_dump({"k": ["v"]}, default_flow_style=False),
        "json": salt.utils.json.loads(salt.utils.json.dumps({"z": [1, None, True]})),
        "ordered": list(salt.utils.odict.OrderedDict([("one", 1), ("two", 2)]).items()),
        "human": salt.utils.stringutils.human_to_bytes("2M") if hasattr(salt.utils.stringutils, "human_to_bytes") else None,
    }


def versions():
    compare = salt.utils.versions.version_cmp
    return [compare("1.10", "1.9"), compare("1.0", "1.0"), compare("1", "2"), salt.utils.versions.compare("1.2.3", ">=", "1.2")]
