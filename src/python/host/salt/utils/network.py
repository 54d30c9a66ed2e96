"""Addresses and hosts. What needs the interfaces of this host asks halite's own functions."""
import ipaddress
import re
import socket

# Arguments of some functions have the module's name.
_network = ipaddress.ip_network


def _salt(name, *args, **kwargs):
    from halite.main import salt

    return salt()[name](*args, **kwargs)


def _address(text):
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _version(text):
    return getattr(_address(text), "version", None)


def is_ip(ip_addr):
    return _address(ip_addr) is not None


def is_ipv4(ip_addr):
    return _version(ip_addr) == 4


def is_ipv6(ip_addr):
    return _version(ip_addr) == 6


def is_loopback(ip_addr):
    return getattr(_address(ip_addr), "is_loopback", False)


def _is_net(kind, cidr):
    try:
        return "/" in cidr and kind(cidr) is not None
    except (TypeError, ValueError):
        return False


def is_ipv4_subnet(cidr):
    return _is_net(ipaddress.IPv4Network, cidr)


def is_ipv6_subnet(cidr):
    return _is_net(ipaddress.IPv6Network, cidr)


def is_subnet(cidr):
    """Whether it is a network with a length, and no host in it."""
    return is_ipv4_subnet(cidr) or is_ipv6_subnet(cidr)


def in_subnet(cidr, addr=None):
    """Whether an address, or one of this host, is in a network."""
    try:
        net = _network(cidr)
    except ValueError:
        return False
    if addr is None:
        addr = ip_addrs() + ip_addrs6()
    return any(ipaddress.ip_address(one) in net for one in (addr if isinstance(addr, (list, tuple)) else [addr]))


def filter_by_networks(values, networks):
    """Addresses that are in one of several networks, of a list or of the lists in a map."""
    if networks is None:
        return values
    nets = [_network(one) for one in networks]
    inside = lambda ips: [ip for ip in ips for net in nets if ipaddress.ip_address(ip) in net]
    if hasattr(values, "items"):
        return {name: inside(ips) for name, ips in values.items()}
    if isinstance(values, (list, tuple, str)):
        return inside(values)
    raise ValueError("Do not know how to filter a {}".format(type(values)))


def natural_ipv4_netmask(ip_addr, fmt="prefixlen"):
    """The mask of the class that an address was of once."""
    first = int(ip_addr.split(".")[0])
    length = 24 if first >= 192 else 16 if first >= 128 else 8
    return cidr_to_ipv4_netmask(length) if fmt == "netmask" else "/%d" % length


def rpad_ipv4_network(ip_addr):
    """Zeros for the numbers that are missing."""
    return ".".join((ip_addr.split(".") + ["0"] * 4)[:4])


def cidr_to_ipv4_netmask(cidr_bits):
    """The mask of a length; an empty text if it is none."""
    try:
        return str(ipaddress.IPv4Network((0, int(cidr_bits))).netmask) if int(cidr_bits) else ""
    except ValueError:
        return ""


def get_net_start(ipaddr, netmask):
    """The first address of a network."""
    return calc_net(ipaddr, netmask).partition("/")[0]


def get_net_size(mask):
    """The length of a mask."""
    bits = "".join(map("{:08b}".format, map(int, mask.split("."))))
    return bits.rfind("1") + 1


def calc_net(ipaddr, netmask=None):
    """The network of an address with a mask."""
    whole = ipaddr if netmask is None else "%s/%s" % (ipaddr, netmask)
    return str(_network(whole, strict=False))


def interfaces():
    return _salt("network.interfaces")


def ip_addrs(interface=None, include_loopback=False, interface_data=None):
    return _salt("network.ip_addrs", interface=interface, include_loopback=include_loopback)


def ip_addrs6(interface=None, include_loopback=False, interface_data=None):
    return _salt("network.ip_addrs6", interface=interface, include_loopback=include_loopback)


def subnets(interfaces=None):
    return _salt("network.subnets", interfaces)


def subnets6():
    return _salt("network.subnets6")


def _of(iface, key):
    known = interfaces()
    if iface in known:
        return known[iface].get(key, ""), None
    return None, 'Interface "{}" not in available interfaces: "{}"'.format(iface, '", "'.join(known))


def hw_addr(iface):
    """The hardware address of an interface, or what is wrong with its name."""
    value, wrong = _of(iface, "hwaddr")
    return wrong or value


def interface(iface):
    """The IPv4 addresses of an interface, or what is wrong with its name."""
    value, wrong = _of(iface, "inet")
    return wrong or value


def interface_ip(iface):
    """The first IPv4 address of an interface, or what is wrong with its name."""
    value, wrong = _of(iface, "inet")
    return wrong or (value[0].get("address", "") if value else "")


def get_fqhostname():
    """The full name of this host."""
    names = [socket.getfqdn()]
    try:
        known = socket.getaddrinfo(socket.gethostname(), 0, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP, socket.AI_CANONNAME)
        names += [one[3] for one in known if one[3]]
    except socket.gaierror:
        pass
    return names[-1] or None


def generate_minion_id():
    return get_fqhostname() or "localhost"


def host_to_ips(host):
    """The addresses of a name; None if there are none."""
    try:
        return [one[4][0] for one in socket.getaddrinfo(host, 0, 0, socket.SOCK_STREAM)] or None
    except (OSError, UnicodeError, TypeError):
        return None


def ip_to_host(ip):
    try:
        return socket.gethostbyaddr(ip)[0]
    except (OSError, UnicodeError, TypeError):
        return None


def is_reachable_host(entity_name):
    """Whether a name has an address."""
    try:
        return bool(socket.getaddrinfo(entity_name, 0))
    except socket.gaierror:
        return False


def sanitize_host(host):
    """Without characters that no name of a host has."""
    return host if isinstance(host, str) and is_ip(host) else re.sub(r"[^A-Za-z0-9._-]", "", host[:255])


def isportopen(host, port):
    """False for what is no port, else 0 or the error's number of a connection."""
    if not 0 < int(port) < 65536:
        return False
    with socket.socket() as probe:
        return probe.connect_ex((sanitize_host(host), int(port)))


def dns_check(addr, port=0, safe=False, ipv6=None):
    """An address of a name; one that can be connected to if there is any."""
    from salt.exceptions import SaltClientError, SaltSystemExit

    family = {None: socket.AF_UNSPEC, False: socket.AF_INET}.get(ipv6, socket.AF_INET6)
    found = []
    for one in [family, socket.AF_INET] if ipv6 else [family]:
        try:
            found += socket.getaddrinfo(addr, port, one, socket.SOCK_STREAM)
        except OSError:
            continue
    if not found:
        if safe:
            raise SaltClientError()
        raise SaltSystemExit(code=42, msg="DNS lookup or connection check of '{}' failed.".format(addr))
    for kind, how, protocol, _, place in found:
        with socket.socket(kind, how, protocol) as probe:
            probe.settimeout(2)
            if not probe.connect_ex(place):
                return ip_bracket(place[0])
    return ip_bracket(found[0][4][0])


def ip_bracket(addr, strip=False):
    """An IPv6 address in brackets, or without them; others as they are."""
    bare = str(addr).strip("[]")
    return "[%s]" % bare if is_ipv6(bare) and not strip else bare


def parse_host_port(host_port):
    """Host and port of `host:port`; a port of None if there is none."""
    bracketed = re.match(r"\[(.*)\](.*)$", host_port)
    if bracketed:
        host, rest = bracketed.groups()
        host = ipaddress.IPv6Address(host).compressed
        if rest[:1] not in ("", ":"):
            raise ValueError('found ambiguous "{}" port in "{}"'.format(rest, host_port))
        return host, int(rest[1:]) if rest else None
    host, port = host_port, None
    if host_port.count(":") == 1:
        host, port = host_port.split(":")
        if not re.match(r"\s*[+-]?\d+\s*$", port):
            raise ValueError('host_port "{}" port value "{}" is not an integer.'.format(host_port, port))
        port = int(port)
    known = _address(host)
    if known is None and host != sanitize_host(host):
        raise ValueError('bad hostname: "{}"'.format(host))
    return known.compressed if known else host, port


def mac_str_to_bytes(mac_str):
    digits = mac_str.replace(mac_str[2], "") if len(mac_str) == 17 else mac_str
    if len(digits) != 12:
        raise ValueError("Invalid MAC address")
    return bytes.fromhex(digits)


def gen_mac(prefix="AC:DE:48"):
    """A random address with a maker's number."""
    import os

    return ":".join([prefix] + ["%02X" % one for one in os.urandom(3)])
