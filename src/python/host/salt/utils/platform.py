"""Which kind of system this is."""
import os
import sys


def _system(name):
    answer = sys.platform.startswith(name)
    return lambda: answer


is_linux = _system("linux")
is_windows = _system("win")
is_darwin = _system("darwin")
is_freebsd = _system("freebsd")
is_netbsd = _system("netbsd")
is_openbsd = _system("openbsd")
is_sunos = _system("sunos")
is_aix = _system("aix")
# halite's minion runs on none of these, and is no proxy.
is_smartos = is_smartos_globalzone = is_smartos_zone = is_junos = is_proxy = lambda: False


def is_aarch64():
    return os.uname().machine.startswith("arm64" if is_darwin() else "aarch64")


def is_fedora():
    return linux_distribution()[0] == "Fedora"


def is_photonos():
    return linux_distribution()[0] in ("VMware Photon OS", "Photon OS")


def get_machine_identifier():
    """The host's id as `machine_id`, if it has one."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if os.path.exists(path):
            return {"machine_id": _read(path).strip()}
    return {}


def linux_distribution(full_distribution_name=True):
    """Name, version and code name."""
    import re

    facts = dict(re.findall(r"""(?m)^\s*(\w+)=["']?(.*?)["']?\s*$""", _read("/etc/os-release") or _read("/usr/lib/os-release")))
    name = facts.get("ID", "").lower()
    version = facts.get("VERSION_ID", "")
    exact = _read("/etc/debian_version").strip() if name == "debian" else ""
    if exact.count(".") > version.count(".") and exact[0].isdigit():
        version = exact
    named = re.search(r"\((\D+)\)|,\s*(\D+)", facts.get("VERSION", ""))
    code = facts.get("VERSION_CODENAME", facts.get("UBUNTU_CODENAME")) or (named.group(1) or named.group(2) if named else "")
    return facts.get("NAME", "") if full_distribution_name else {"ol": "oracle", "opensuse-leap": "opensuse"}.get(name, name), version, code


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
