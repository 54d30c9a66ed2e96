"""Filters of networks."""


def cases(s):
    s.expressions(
        r"""
'192.168.0.1'|is_ip, '::1'|is_ip, 'x'|is_ip, '192.168.0.1/24'|is_ip, '10.0.0.256'|is_ip, '1.2.3'|is_ip, '01.2.3.4'|is_ip, ''|is_ip, 'fe80::1%eth0'|is_ip
'192.168.0.1'|is_ipv4, '::1'|is_ipv4, '192.168.0.1/24'|is_ipv4, '1.2.3.4/33'|is_ipv4, '1.2.3.4/255.255.0.0'|is_ipv4, '1.2.3.4/0.0.255.255'|is_ipv4
'::1'|is_ipv6, '1.2.3.4'|is_ipv6, '::ffff:1.2.3.4'|is_ipv6, '2001:db8::/32'|is_ipv6, ':::'|is_ipv6, '1::2::3'|is_ipv6
'192.168.0.1'|is_ip(options='global'), '8.8.8.8'|is_ip('public'), '127.0.0.1'|is_ip('loopback'), '127.0.0.1'|is_ip('lo, private'), '224.0.0.1'|is_ip('multicast'), '169.254.1.1'|is_ip('ll'), '240.0.0.1'|is_ip('reserved'), '0.0.0.0'|is_ip('unspecified'), 'fec0::1'|is_ip('site-local'), '10.0.0.1'|is_ip('nosuch'), '100.64.0.1'|is_ip('private'), 'fe80::1'|is_ip('link_local'), '::'|is_ip('unspecified'), '2001:db8::1'|is_ip('private'), 'ff02::1'|is_ip('multicast'), '198.18.0.1'|is_ip('private'), '192.0.2.1'|is_ip('public')
['192.168.0.1', 'foo', 'bar', 'fe80::', '10.0.0.1/8']|ipaddr, '192.168.0.1'|ipaddr, 'x'|ipaddr, '2001:DB8::0:1'|ipaddr, '192.168.0.0/24'|ipaddr, '192.168.0.17/24'|ipaddr, ['8.8.8.8', '10.0.0.1']|ipaddr('public'), []|ipaddr, '::ffff:1.2.3.4'|ipaddr, 'fe80::1%eth0'|ipaddr
['192.168.0.1', '::1']|ipv4, ['192.168.0.1', '::1']|ipv6, '10.0.0.1'|ipv4, '10.0.0.1'|ipv6, '1.2.3.4/16'|ipv4, ['127.0.0.1', '1.1.1.1']|ipv4(options='loopback'), ('1.1.1.1', 'x')|ipv4
5|ipaddr, none|ipv4, {'a': 1}|ipv6
'192.168.0.12/28'|ip_host, ['192.168.0.12/28', 'x', '::1/64']|ip_host, 'x'|ip_host, '10.0.0.1'|ip_host, '1.2.3.4'|ip_host(version=6)
'192.168.0.1/30'|network_hosts, ['10.0.0.0/31', '10.0.0.5/32']|network_hosts, 'x'|network_hosts, '::1/127'|network_hosts, '2001:db8::/126'|network_hosts, '10.1.1.1'|network_hosts, '::5/128'|network_hosts
'192.168.0.1/8'|network_size, ['10.0.0.0/31', '::/64']|network_size, 'x'|network_size, '::/0'|network_size, '10.0.0.1'|network_size
'192.168.0.1'|ipwrap, '::1'|ipwrap, ['192.168.0.1', 'fe80::1', 'foo']|ipwrap, 'foo'|ipwrap, ('::1',)|ipwrap, '2001:DB8::1'|ipwrap, none|ipwrap, 5|ipwrap
['192.168.0.5', '10.0.0.1', '192.168.1.1']|filter_by_networks(['192.168.0.0/24', '10.0.0.0/8']), {'eth0': ['10.0.0.1', '1.1.1.1'], 'lo': ['::1']}|filter_by_networks(['10.0.0.0/8', '::1/128']), ['1.1.1.1']|filter_by_networks([]), ['1.1.1.1']|filter_by_networks(none)
['x']|filter_by_networks(['10.0.0.0/8'])
['10.0.0.1']|filter_by_networks(['10.0.0.1/8'])
5|filter_by_networks(['10.0.0.0/8'])
'00:11:22:33:44:55'|mac_str_to_bytes, '001122334455'|mac_str_to_bytes, '00-1a-22-33-44-ff'|mac_str_to_bytes
'00:11'|mac_str_to_bytes
grains.ipv4|ipaddr|reject('equalto', '127.0.0.1')|first, (grains.ipv4|ipv4)[1]
""",
        grains={"ipv4": ["127.0.0.1", "10.0.0.5"]},
    )
    s.case("network of a pillar", "{% for n in ['10.0.0.0/30']|network_hosts %}{% for h in n %}{{ h }},{% endfor %}{% endfor %}")
