"""Options, grains, pillar and context."""
import os


def opts():
    return {
        "id": __opts__["id"],
        "test": __opts__.get("test"),
        "cachedir": os.path.isdir(__opts__["cachedir"]),
        "file_client": __opts__["file_client"],
        "extension_modules": os.path.basename(__opts__["extension_modules"]),
        "saltenv": __opts__.get("saltenv"),
        "custom": __opts__.get("corpus.option"),
        "grains_in_opts": __opts__["grains"]["kernel"],
        "pillar_in_opts": __opts__["pillar"]["corpus"]["name"],
        "roots": sorted(__opts__["file_roots"]),
        "absent": __opts__.get("corpus.absent", "default"),
        "role": __opts__.get("__role"),
        "cli": __opts__.get("__cli"),
    }


def grains():
    return [__grains__["kernel"], __grains__.get("corpus_absent", "no"), "id" in __grains__, __grains__["id"], __grains__.get("corpus_plain")]


def pillar():
    return [__pillar__["corpus"]["name"], __pillar__.get("absent"), sorted(__pillar__["corpus"])]


def context_remember():
    __context__["use_dunders.count"] = __context__.get("use_dunders.count", 0) + 1
    return __context__["use_dunders.count"]


def context_twice():
    return [__salt__["use_dunders.context_remember"](), context_remember(), __salt__["use_dunders.context_remember"]()]


def context_shared():
    __context__["corpus_shared"] = "set here"
    return __salt__["use_context.shared"]()


def retcode(code=4):
    __context__["retcode"] = code
    return "with a return code"


def retcode_nested():
    __salt__["use_dunders.retcode"](5)
    return "nested"


def retcode_cleared():
    __salt__["cmd.run"]("exit 3", python_shell=True)
    seen = __context__.get("retcode")
    __context__.pop("retcode", None)
    return seen


def changes_opts():
    __opts__["corpus_new"] = 1
    return __salt__["use_context.option"]("corpus_new")


def test_mode():
    return __opts__["test"]
