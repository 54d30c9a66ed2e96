"""Users and groups."""
import grp
import os
import pwd


def _or_none(ask, *args):
    try:
        return ask(*args)
    except KeyError:
        return None


def get_user():
    """Who this process runs as."""
    return pwd.getpwuid(os.geteuid()).pw_name


def get_specific_user():
    """The same; root through sudo is `sudo_` and who that was."""
    user, behind = get_user(), os.environ.get("SUDO_USER")
    return "sudo_%s" % behind if user == "root" and behind is not None else user


def get_uid(user=None):
    """The number of a user, or None."""
    found = None if user is None else _or_none(pwd.getpwnam, user)
    return os.geteuid() if user is None else found and found.pw_uid


def get_gid(group=None):
    """The number of a group, or None."""
    found = None if group is None else _or_none(grp.getgrnam, group)
    return os.getegid() if group is None else found and found.gr_gid


def get_default_group(user):
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def get_group_list(user, include_default=True):
    """Names of a user's groups."""
    main = _or_none(get_default_group, user)
    found = {group.gr_name for group in grp.getgrall() if user in group.gr_mem}
    if main is not None:
        found.update(group.gr_name for group in map(grp.getgrgid, os.getgrouplist(user, pwd.getpwnam(user).pw_gid)))
        (found.add if include_default else found.discard)(main)
    return sorted(found)


def get_group_dict(user=None, include_default=True):
    """Numbers of a user's groups by name."""
    return {name: grp.getgrnam(name).gr_gid for name in get_group_list(user, include_default)}


def get_gid_list(user, include_default=True):
    return sorted(set(get_group_dict(user, include_default).values()))


def chugid(runas, group=None):
    """Makes this process another user's, for good: call it in a child process only."""
    from salt.exceptions import CommandExecutionError

    user = pwd.getpwnam(runas)
    main = user.pw_gid if group is None else get_gid(group)
    if main is None:
        raise CommandExecutionError("there is no group %s" % group)
    try:
        os.setgid(main)
        os.setgroups(get_gid_list(runas))
        os.setuid(user.pw_uid)
    except OSError as error:
        raise CommandExecutionError("this process cannot become %s's: %s" % (runas, error)) from None


def chugid_and_umask(runas, umask, group=None):
    """The same with a umask; either may be None."""
    user = runas or get_user()
    if user != get_user() or group and get_gid(group) != os.getegid():
        chugid(user, group)
    if umask is not None:
        os.umask(umask)
