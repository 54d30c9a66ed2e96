"""Renderers of users, `#!py`, and templates in Python."""
import io
import os
import sys
import types


def render(loader, name, data, argline, saltenv, sls, path, context):
    """Renders text or data; the result is either."""
    kwargs = {"tmplpath": path, "renderers": Renderers(loader), "rendered_sls": set()}
    if context:
        kwargs["context"] = context
    if argline:
        kwargs["argline"] = argline
    if name == "py" and "py" not in loader.kinds["renderers"].files and not loader.has_salt:
        names = {key: value for key, value in (context or {}).items() if isinstance(key, str)}
        return run(loader, data, path, saltenv, dict({**names, **kwargs}, saltenv=saltenv, __env__=saltenv, sls=sls, __sls__=sls))
    function = loader.function("renderers", name + ".render")
    return result(function.code(source(data), saltenv, sls, **kwargs))


def template(loader, name, text, saltenv, variables):
    """Renders the template of a file to text."""
    if name != "py":
        return installed(loader, name, text, saltenv, variables)
    from salt.utils.stringutils import to_str

    return to_str(run(loader, text, variables.get("tplpath") or "template.py", saltenv, dict(variables, saltenv=saltenv, __env__=saltenv)))


def source(data):
    """Texts come as files, as from Salt's own renderers."""
    return io.StringIO(data) if isinstance(data, str) else data


def result(data):
    return data.read() if hasattr(data, "read") else data


def run(loader, text, path, saltenv, names):
    """What `run()` of a text returns."""
    # Not the name of a package that it may want to import.
    name = "rendered_" + os.path.basename(path).split(".")[0]
    module = types.ModuleType(name)
    module.__file__ = path
    for key in ("salt", "grains", "pillar", "opts"):
        value = getattr(loader, key)
        setattr(module, key, value)
        setattr(module, "__%s__" % key, value)
    module.__dict__.update(names)
    before = sys.modules.get(name)
    # Data classes and the like look for their module.
    sys.modules[name] = module
    try:
        exec(compile(text, path, "exec"), module.__dict__)
        try:
            return module.run()
        except Exception as error:
            from halite import errors
            from salt.exceptions import SaltRenderError

            lines = errors.trace(error) + errors.class_name(type(error))
            text = errors.text_of(error)
            raise SaltRenderError("Traceback (most recent call last):\n%s%s\n" % (lines, ": " + text if text else "")) from None
    finally:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before


def installed(loader, name, text, saltenv, variables):
    """By the template engines of an installed Salt."""
    from salt.exceptions import SaltRenderError

    if not loader.has_salt:
        raise SaltRenderError("the template engine %s is one of Salt's; set legacy_salt to an installed Salt, or use jinja" % name)
    import salt.utils.templates

    engine = salt.utils.templates.TEMPLATE_REGISTRY[name]
    done = engine(
        text, from_str=True, to_str=True, context=variables, saltenv=saltenv,
        salt=loader.salt, grains=loader.grains, pillar=loader.pillar, opts=loader.opts,
    )
    if not done["result"]:
        raise SaltRenderError(str(done["data"]))
    return done["data"]


class Renderers:
    """Renderers by name, for those that call others."""

    def __init__(self, loader):
        self.loader = loader

    def __getitem__(self, name):
        return self.loader.function("renderers", name + ".render").code

    def __contains__(self, name):
        try:
            self[name]
        except KeyError:
            return False
        return True
