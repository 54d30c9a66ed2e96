//! The transports that a master serves, and their ports.

use super::value::{OptionValue, text};
use super::{ConfigError, MasterConfig, MinionConfig, finish};
use halite_wire::tls::TlsOptions;
use halite_wire::{Map, Transport, Value};

/// By how much the ports of a further transport are higher than those of the one before it.
const STEP: u16 = 100;

/// The two ports of a transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Which transport.
    pub transport: Transport,
    /// Address on which they listen.
    pub interface: String,
    /// Port on which jobs are published.
    pub publish_port: u16,
    /// Port for requests.
    pub ret_port: u16,
}

impl MasterConfig {
    /// The ports of all transports, that of `transport` first.
    pub fn ports(&self) -> Vec<Ports> {
        // They were validated when the configuration was read.
        let origin = Default::default();
        self.read_ports(&finish::Checks::new(&origin))
            .unwrap_or_default()
    }

    /// TLS of the transports that can have it.
    pub fn tls(&self) -> Option<&TlsOptions> {
        self.ssl.options()
    }

    /// Whether jobs can go to each of their minions alone: `publish_private` is set, and nothing that excludes it.
    pub fn publishes_privately(&self) -> bool {
        self.publish_private && self.excludes_private().is_none()
    }

    /// The option with which `publish_private` has no effect: lower masters need all jobs, and a
    /// cluster does not know which minions have a session of their own.
    pub(super) fn excludes_private(&self) -> Option<&'static str> {
        if self.order_masters {
            Some("order_masters")
        } else {
            self.cluster().map(|_| "cluster_id")
        }
    }

    /// The publish ports of all transports.
    pub fn publish_ports(&self) -> Vec<u16> {
        self.ports().iter().map(|p| p.publish_port).collect()
    }

    /// The request ports of all transports.
    pub fn ret_ports(&self) -> Vec<u16> {
        self.ports().iter().map(|p| p.ret_port).collect()
    }

    pub(super) fn read_ports(&self, checks: &finish::Checks) -> Result<Vec<Ports>, ConfigError> {
        let bad = |expected: &str| {
            let found = Value::Map(self.transport_opts.clone());
            checks.bad("transport_opts", &found, expected)
        };
        let form =
            "a map of zeromq, tcp or ws to maps with 'interface', 'publish_port' and 'ret_port'";
        let mut served = vec![self.transport];
        // A transport that has options is served, as in Salt.
        let mut own = Vec::new();
        for (name, options) in self.transport_opts.iter() {
            let named = text(name).and_then(|name| Transport::of_name(&name));
            let (Some(transport), Some(options)) = (named, options.as_map()) else {
                return Err(bad(form));
            };
            own.push((transport, options));
        }
        let further = self.transports.0.iter().copied();
        for transport in further.chain(own.iter().map(|(transport, _)| *transport)) {
            if !served.contains(&transport) {
                served.push(transport);
            }
        }
        let mut ports = Vec::new();
        for (n, transport) in (0u16..).zip(served) {
            let options = own.iter().find(|(of, _)| *of == transport);
            let port = |name: &str, usual: u16| match options.and_then(|(_, o)| o.get(name)) {
                None => usual.checked_add(n * STEP),
                Some(port) => u16::from_value(port).map(|port| port.value),
            };
            let interface = options.and_then(|(_, o)| o.str("interface"));
            let new = Ports {
                transport,
                interface: interface.unwrap_or(&self.interface).to_owned(),
                publish_port: port("publish_port", self.publish_port).ok_or_else(|| bad(form))?,
                ret_port: port("ret_port", self.ret_port).ok_or_else(|| bad(form))?,
            };
            let taken = |port: u16| {
                let used = |p: &Ports| [p.publish_port, p.ret_port].contains(&port);
                port != 0 && ports.iter().any(used)
            };
            if taken(new.publish_port) || taken(new.ret_port) {
                return Err(bad("ports that no other transport has"));
            }
            ports.push(new);
        }
        if let Some(tls) = self.tls()
            && tls.certfile.is_none()
        {
            let found = self.ssl.to_value();
            return Err(checks.bad(
                "ssl",
                &found,
                "a map with certfile and keyfile, which a master needs",
            ));
        }
        Ok(ports)
    }
}

impl MinionConfig {
    /// TLS, if it is on and the transport can have it.
    pub fn tls(&self) -> Option<&TlsOptions> {
        let tls = self.ssl.options()?;
        (self.transport != Transport::ZeroMq).then_some(tls)
    }
}

/// Options of `transport_opts` that halite does not know.
pub(super) fn unknown_options(options: &Map) -> Vec<String> {
    let known = ["interface", "publish_port", "ret_port"];
    let mut unknown = Vec::new();
    for (name, options) in options.iter() {
        for (option, _) in options.as_map().into_iter().flat_map(Map::iter) {
            let option = text(option).unwrap_or_default();
            if !known.contains(&option.as_str()) {
                let name = text(name).unwrap_or_default();
                unknown.push(format!(
                    "transport_opts: {name}: '{option}' has no effect; only interface, publish_port and ret_port may differ"
                ));
            }
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(options: &str) -> Result<Vec<(Transport, u16, u16)>, String> {
        let map = halite_wire::yaml::parse(options).unwrap();
        let map = map.into_map().unwrap_or_default();
        let config = MasterConfig::from_map(map, std::path::Path::new("/"));
        let config = config.map_err(|e| e.to_string())?;
        let ports = config.ports().into_iter();
        Ok(ports
            .map(|p| (p.transport, p.publish_port, p.ret_port))
            .collect())
    }

    #[test]
    fn private_jobs_need_known_subscribers() {
        for (options, private, warned) in [
            ("{}", false, false),
            ("{publish_private: true}", true, false),
            ("{publish_private: true, transport: tcp}", true, false),
            ("{publish_private: true, transports: [ws]}", true, false),
            ("{publish_private: true, order_masters: true}", false, true),
            ("{order_masters: true}", false, false),
        ] {
            let map = halite_wire::yaml::parse(options).unwrap();
            let map = map.into_map().unwrap_or_default();
            let config = MasterConfig::from_map(map, std::path::Path::new("/")).unwrap();
            assert_eq!(config.publishes_privately(), private, "{options}");
            let text = "'publish_private' has no effect";
            let has = config.warnings.iter().any(|w| w.contains(text));
            assert_eq!(has, warned, "{options}");
        }
    }

    #[test]
    fn each_transport_has_its_ports() {
        let (zeromq, tcp) = (Transport::ZeroMq, Transport::Tcp);
        let usual = (zeromq, 4505, 4506);
        for (options, expected) in [
            ("", vec![usual]),
            ("transport: tcp", vec![(tcp, 4505, 4506)]),
            ("transports: tcp", vec![usual, (tcp, 4605, 4606)]),
            (
                "transports: [tcp, ws]",
                vec![usual, (tcp, 4605, 4606), (Transport::Ws, 4705, 4706)],
            ),
            ("transports: [tcp, zeromq]", vec![usual, (tcp, 4605, 4606)]),
            (
                "{transport: tcp, transports: [zeromq], ret_port: 9}",
                vec![(tcp, 4505, 9), (zeromq, 4605, 109)],
            ),
            (
                "transport_opts: {tcp: {publish_port: 1, ret_port: 2}}",
                vec![usual, (tcp, 1, 2)],
            ),
        ] {
            assert_eq!(ports(options).unwrap(), expected, "{options}");
        }
        for (options, why) in [
            ("transport: udp", "zeromq, tcp or ws"),
            ("transports: [zeromq, x]", "a list of zeromq, tcp and ws"),
            ("transport_opts: {x: {}}", "a map of zeromq, tcp or ws"),
            (
                "transport_opts: {tcp: {ret_port: 4506}}",
                "no other transport",
            ),
            (
                "transport_opts: {tcp: {ret_port: x}}",
                "a map of zeromq, tcp or ws",
            ),
            (
                "{transports: tcp, ret_port: 65500}",
                "a map of zeromq, tcp or ws",
            ),
        ] {
            let error = ports(options).unwrap_err();
            assert!(error.contains(why), "{options}: {error}");
        }
    }
}
