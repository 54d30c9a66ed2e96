"""Renders templates with halite's engines."""

DEFAULT_TEMPLATE = "jinja"


def _render(engine, text, context):
    from halite.main import salt

    context = dict(context)
    saltenv = context.pop("saltenv", None) or "base"
    # What halite gives to templates anyway.
    for name in ("salt", "grains", "pillar", "opts", "sls", "tmplpath"):
        context.pop(name, None)
    return salt()["file.apply_template_on_contents"](text, engine, context, {}, saltenv)


def _engine(name):
    def render(sfn, from_str=False, to_str=False, context=None, **kwargs):
        """The text of a template, as `data`; `sfn` is its path, or with `from_str` the template."""
        text = sfn
        try:
            if not from_str:
                with open(sfn, encoding="utf-8") as file:
                    text = file.read()
            data = _render(name, text, {**kwargs, **(context or {})})
        except Exception as error:
            return {"result": False, "data": str(error)}
        if not to_str:
            from salt.utils.files import mkstemp

            path = mkstemp()
            with open(path, "w", encoding="utf-8") as file:
                file.write(data)
            data = path
        return {"result": True, "data": data}

    return render


def render_jinja_tmpl(tmplstr, context, tmplpath=None):
    """The text of a Jinja template."""
    return _render("jinja", tmplstr, context)


JINJA = _engine("jinja")
TEMPLATE_REGISTRY = {"jinja": JINJA}
