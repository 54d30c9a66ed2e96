"""salt.utils.network and hashutils."""
import salt.utils.hashutils
import salt.utils.network


def addresses():
    return {
        "is_ip": [salt.utils.network.is_ip(one) for one in ("10.0.0.1", "::1", "10.0.0.256", "x")],
        "is_ipv4": salt.utils.network.is_ipv4("1.2.3.4"),
        "is_ipv6": salt.utils.network.is_ipv6("fe80::1"),
        "subnet": salt.utils.network.in_subnet("127.0.0.0/8"),
        "net": salt.utils.network.calc_net("192.168.5.7", "255.255.255.0"),
        "loopback": salt.utils.network.is_loopback("127.0.0.1"),
    }


def digests():
    return [
        salt.utils.hashutils.md5_digest("a"),
        salt.utils.hashutils.sha256_digest("a"),
        salt.utils.hashutils.base64_b64encode("abc"),
        salt.utils.hashutils.get_hash(__file__) == __salt__["file.get_hash"](__file__),
    ]
