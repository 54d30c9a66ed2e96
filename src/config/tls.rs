//! The option `ssl` (reference `salt-transports.md` 3).

use super::value::{Converted, OptionValue, converted, text};
use halite_wire::tls::{Authority, TlsOptions, TlsVersion, VerifyFlag, VerifyPeer};
use halite_wire::{Map, Value};
use std::path::PathBuf;

/// What is said of TLS that no port has.
pub(super) const NO_TLS: &str =
    "the option 'ssl' has no effect: ZeroMQ has no TLS; set `transport: tcp` or `ws`";

/// Its value: TLS as a map of sub-options says, or with the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Ssl {
    value: Value,
    options: Option<TlsOptions>,
}

impl Ssl {
    /// The settings; `None` without TLS.
    pub fn options(&self) -> Option<&TlsOptions> {
        self.options.as_ref()
    }
}

const FLAGS: [(&str, VerifyFlag); 6] = [
    ("VERIFY_CRL_CHECK_LEAF", VerifyFlag::CrlCheckLeaf),
    ("VERIFY_CRL_CHECK_CHAIN", VerifyFlag::CrlCheckChain),
    ("VERIFY_X509_STRICT", VerifyFlag::Strict),
    ("VERIFY_X509_TRUSTED_FIRST", VerifyFlag::TrustedFirst),
    ("VERIFY_ALLOW_PROXY_CERTS", VerifyFlag::AllowProxyCerts),
    ("VERIFY_X509_PARTIAL_CHAIN", VerifyFlag::PartialChain),
];

impl OptionValue for Ssl {
    const TYPE: &'static str = "true, false or a map of certfile, keyfile, ca_certs, cert_reqs (CERT_NONE, CERT_OPTIONAL or \
         CERT_REQUIRED), ssl_version (PROTOCOL_TLS, PROTOCOL_TLSv1_2 or PROTOCOL_TLSv1_3), ciphers, verify_locations and \
         verify_flags";

    const OPTIONAL: bool = true;

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        let options = match value {
            Value::Nil | Value::Bool(false) => None,
            Value::Bool(true) => Some(TlsOptions::default()),
            Value::Map(map) if map.is_empty() => None,
            Value::Map(map) => Some(options(map)?),
            _ => return None,
        };
        converted(Ssl {
            value: value.clone(),
            options,
        })
    }

    fn to_value(&self) -> Value {
        self.value.clone()
    }
}

fn options(map: &Map) -> Option<TlsOptions> {
    let mut out = TlsOptions::default();
    let path = |value: &Value| file(value.as_str()?);
    for (name, value) in map.iter() {
        if value.is_nil() {
            continue;
        }
        match name.as_str()? {
            "certfile" => out.certfile = Some(path(value)?),
            "keyfile" => out.keyfile = Some(path(value)?),
            "ca_certs" => out.authorities.push(Authority::File(path(value)?)),
            "cert_reqs" => out.verify = Some(verify(value)?),
            "ssl_version" => out.version = version(value)?,
            "ciphers" => out.ciphers = Some(text(value)?),
            "verify_locations" => {
                for one in list(value) {
                    out.authorities.push(authority(one)?);
                }
            }
            "verify_flags" => {
                for flag in list(value) {
                    let name = flag.as_str()?;
                    match FLAGS.iter().find(|(known, _)| *known == name) {
                        Some((_, flag)) => out.flags.push(*flag),
                        None if name == "VERIFY_DEFAULT" => {}
                        None => return None,
                    }
                }
            }
            _ => return None,
        }
    }
    // One without the other is of no use.
    (out.certfile.is_some() == out.keyfile.is_some()).then_some(out)
}

fn file(name: &str) -> Option<PathBuf> {
    (!name.is_empty() && !name.contains('\0')).then(|| name.into())
}

fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

/// A word, or its number in Python's module `ssl`.
fn verify(value: &Value) -> Option<VerifyPeer> {
    Some(match text(value)?.as_str() {
        "CERT_NONE" | "0" => VerifyPeer::None,
        "CERT_OPTIONAL" | "1" => VerifyPeer::Optional,
        "CERT_REQUIRED" | "2" => VerifyPeer::Required,
        _ => return None,
    })
}

fn version(value: &Value) -> Option<Option<TlsVersion>> {
    Some(match value.as_str()? {
        "PROTOCOL_TLS" | "PROTOCOL_SSLv23" | "PROTOCOL_TLS_CLIENT" | "PROTOCOL_TLS_SERVER" => None,
        "PROTOCOL_TLSv1_2" => Some(TlsVersion::V1_2),
        "PROTOCOL_TLSv1_3" => Some(TlsVersion::V1_3),
        _ => return None,
    })
}

fn authority(value: &Value) -> Option<Authority> {
    let Some(map) = value.as_map() else {
        return Some(Authority::File(file(value.as_str()?)?));
    };
    let [(kind, of)] = map.0.as_slice() else {
        return None;
    };
    let of = of.as_str()?;
    Some(match kind.as_str()? {
        "cafile" => Authority::File(file(of)?),
        "capath" => Authority::Directory(file(of)?),
        "cadata" => Authority::Text(of.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Option<Ssl> {
        let value = halite_wire::yaml::parse(yaml).unwrap();
        Ssl::from_value(&value).map(|ssl| ssl.value)
    }

    #[test]
    fn the_options_of_stock_are_understood() {
        for none in ["null", "false", "{}"] {
            assert_eq!(read(none).unwrap().options(), None, "{none}");
        }
        let default = Some(TlsOptions::default());
        assert_eq!(read("true").unwrap().options, default);
        assert_eq!(read("{certfile: null}").unwrap().options, default);
        let all = read(
            "{certfile: /c, keyfile: /k, ca_certs: /a, cert_reqs: CERT_OPTIONAL, ssl_version: PROTOCOL_TLSv1_2, \
             ciphers: 'HIGH', verify_locations: [/b, {capath: /d}, {cadata: pem}], \
             verify_flags: [VERIFY_DEFAULT, VERIFY_X509_STRICT]}",
        );
        let expected = TlsOptions {
            certfile: Some("/c".into()),
            keyfile: Some("/k".into()),
            authorities: vec![
                Authority::File("/a".into()),
                Authority::File("/b".into()),
                Authority::Directory("/d".into()),
                Authority::Text("pem".into()),
            ],
            verify: Some(VerifyPeer::Optional),
            version: Some(TlsVersion::V1_2),
            ciphers: Some("HIGH".into()),
            flags: vec![VerifyFlag::Strict],
        };
        assert_eq!(all.unwrap().options, Some(expected.clone()));
        assert_eq!(expected.files().len(), 5);
        for wrong in [
            "1",
            "{certfile: /c}",
            "{certs: /c}",
            "{cert_reqs: MAYBE}",
            "{ssl_version: PROTOCOL_TLSv1}",
            "{verify_flags: X}",
            "{verify_locations: [{x: y}]}",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
