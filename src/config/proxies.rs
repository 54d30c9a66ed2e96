//! Load balancers in front of a master (`proxy_protocol`).

use super::value::OptionValue;
use super::{ConfigError, MasterConfig, finish};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl MasterConfig {
    /// Commands and roles on this host reach the request port from these addresses, and send no header.
    pub(super) fn check_balancers(&self, checks: &finish::Checks) -> Result<(), ConfigError> {
        let interfaces = self.ports().into_iter().filter_map(|port| {
            let bare = port.interface.trim_matches(['[', ']']);
            bare.parse::<IpAddr>().ok()
        });
        let own = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let mut own = own.into_iter().chain(interfaces);
        match own.find(|address| self.proxy_protocol.contain(*address)) {
            None => Ok(()),
            Some(address) => Err(checks.bad(
                "proxy_protocol",
                &self.proxy_protocol.to_value(),
                &format!(
                    "without {address}: commands on this host connect from there, and send no header. A balancer on \
                     this host needs an address of its own, such as with `source 127.0.0.2` in HAProxy"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Networks;

    fn read(options: &str) -> Result<Networks, String> {
        let map = halite_wire::yaml::parse(options).unwrap();
        let map = map.into_map().unwrap_or_default();
        let config = MasterConfig::from_map(map, std::path::Path::new("/"));
        config.map(|c| c.proxy_protocol).map_err(|e| e.to_string())
    }

    #[test]
    fn addresses_and_networks_are_read() {
        let list = "proxy_protocol: [10.0.0.5, 10.1.0.0/24, 'fd00::/64']";
        let networks = read(list).unwrap();
        for (address, expected) in [
            ("10.0.0.5", true),
            ("::ffff:10.0.0.5", true),
            ("10.0.0.6", false),
            ("10.1.0.200", true),
            ("fd00::7", true),
            ("fd00:0:0:1::7", false),
        ] {
            assert_eq!(networks.contain(address.parse().unwrap()), expected);
        }
        assert_eq!(read("{}").unwrap(), Networks::default());
        assert_eq!(read("proxy_protocol:").unwrap(), Networks::default());
        assert_eq!(read("proxy_protocol: 10.0.0.5").unwrap().0.len(), 1);
        for text in ["lb1", "10.0.0.5:4505", "10.1.0.1/24", "5"] {
            let why = read(&format!("proxy_protocol: ['{text}']")).unwrap_err();
            assert!(why.contains("10.1.0.0/24"), "{why}");
        }
    }

    #[test]
    fn the_addresses_of_local_commands_are_refused() {
        for options in [
            "proxy_protocol: [127.0.0.1]",
            "proxy_protocol: [0.0.0.0/0]",
            "proxy_protocol: ['::1']",
            "{interface: 10.0.0.1, proxy_protocol: [10.0.0.0/24]}",
            "{interface: '[fd00::1]', proxy_protocol: ['fd00::/64']}",
        ] {
            let why = read(options).unwrap_err();
            assert!(why.contains("`source 127.0.0.2`"), "{options}: {why}");
        }
        assert!(read("{interface: 10.0.0.1, proxy_protocol: [127.0.0.2, 10.0.0.2]}").is_ok());
    }
}
