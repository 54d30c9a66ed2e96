"""What modules call most: pillar, grains, config, cmd, cp, file, state."""
import os


def settings():
    return {
        "pillar": __salt__["pillar.get"]("corpus:name", "none"),
        "pillar_default": __salt__["pillar.get"]("corpus:absent", {"d": 1}),
        "grain": __salt__["grains.get"]("kernel"),
        "option": __salt__["config.option"]("corpus.option", "unset"),
        "config": __salt__["config.get"]("corpus:name"),
        "config_default": __salt__["config.get"]("corpus_unset", default="fallback"),
    }


def command():
    result = __salt__["cmd.run_all"]("echo out; echo err >&2; exit 3", python_shell=True, ignore_retcode=True)
    result.pop("pid", None)
    return [result, __salt__["cmd.run"]("echo one two"), __salt__["cmd.retcode"]("false", ignore_retcode=True), __salt__["cmd.run_stdout"](["echo", "list"])]


def failing_command():
    return __salt__["cmd.run"]("exit 7", python_shell=True)


def server_files():
    text = __salt__["cp.get_file_str"]("salt://files/note.txt")
    path = __salt__["cp.cache_file"]("salt://files/note.txt")
    return [text, os.path.basename(path), __salt__["cp.cache_file"]("salt://files/absent.txt")]


def template():
    return __salt__["slsutil.renderer"](string="{{ grains.kernel }}: {{ salt['shape_plain.greet']('jinja') }}", default_renderer="jinja|yaml")


def disk():
    path = os.path.join(__opts__["corpus_dir"], "touched")
    return [__salt__["file.touch"](path), __salt__["file.file_exists"](path), __salt__["file.write"](path, "text"), __salt__["file.remove"](path), os.path.exists(path)]


def single():
    ret = __salt__["state.single"]("test.succeed_with_changes", name="from a module")
    return [[one["result"], one["name"], sorted(one["changes"])] for one in ret.values()]


def single_own():
    ret = __salt__["state.single"]("st_plain.present", name="from a module")
    return [[one["result"], one["name"], one["comment"]] for one in ret.values()]
