"""Settings of returners."""


def get_returner_options(virtualname=None, ret=None, attrs=None, profile_attr=None, profile_attrs=None, defaults=None, **kwargs):
    """What the names of `attrs` are set to for a returner: `attrs` maps names in the result to names of settings.

    A setting is `<returner>.<name>`, or `<name>` in the map `<returner>`; with `ret_config` of the job, the same below
    `<ret_config>`, first. `ret_kwargs` of the job count most."""
    ret = ret or {}
    config = kwargs.get("__opts__") or {}
    option = (kwargs.get("__salt__") or {}).get("config.option")
    is_plain = option is None
    if is_plain:

        def option(name, default=None):
            return config.get(name, default)

    alternative = str(ret["ret_config"]) if ret.get("ret_config") else ""
    found = {}
    for name, setting in (attrs or {}).items():
        value = setting_of(option, "%s.%s" % (alternative, virtualname), setting) if alternative else None
        # Without functions, what is written in one word comes first.
        value = value or (config.get("%s.%s" % (virtualname, setting)) if is_plain else None)
        value = value or setting_of(option, virtualname, setting)
        if value in (None, ""):
            if not defaults or name not in defaults:
                continue
            value = defaults[name]
        found[name] = value
    found.update(profile(settings(option, found.get(profile_attr)), virtualname, profile_attrs))
    found.update(ret.get("ret_kwargs") or {})
    return found


def setting_of(option, prefix, name):
    return settings(option, prefix).get(name, option("%s.%s" % (prefix, name)))


def settings(option, name):
    found = option(name, {}) if name else {}
    return found if isinstance(found, dict) else {}


def profile(given, virtualname, attrs):
    """What a profile of the configuration says, by the names of the result."""
    return {attr: given.get("%s.%s" % (virtualname, setting)) for attr, setting in (attrs or {}).items()} if given else {}
