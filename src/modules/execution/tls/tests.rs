use crate::execution::{Context, invoke};
use halite_wire::{Map, Value, map};

fn call(fun: &str, kwargs: Map) -> Value {
    invoke(
        &Context::default(),
        &format!("tls.{fun}"),
        Vec::new(),
        kwargs,
    )
    .unwrap()
}

fn is_valid(dir: &str) -> Value {
    // `validate` knows no other way to say where the authority is.
    call("set_ca_path", map! {"cacert_path" => dir});
    let cert = format!("{dir}/koji/certs/a.org.crt");
    let crl = format!("{dir}/koji/crl.pem");
    call(
        "validate",
        map! {"cert" => cert, "ca_name" => "koji", "crl_file" => crl},
    )
}

#[test]
fn an_authority_signs_and_revokes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let of = |more: Map| {
        let mut kwargs = map! {"ca_name" => "koji", "cacert_path" => dir};
        kwargs.0.extend(more.0);
        kwargs
    };
    assert_eq!(
        call("create_csr", of(map! {"CN" => "a.org"})),
        "Certificate for CA named \"koji\" does not exist, please create it first.".into()
    );
    call("create_ca", of(map! {"CN" => "the authority"}));
    assert_eq!(
        call("create_ca", of(map! {})),
        "Certificate for CA named \"koji\" already exists".into()
    );
    let names: Vec<Value> = vec!["DNS:x.y".into(), "IP:1.2.3.4".into()];
    call(
        "create_csr",
        of(map! {"CN" => "a.org", "subjectAltName" => names}),
    );
    call(
        "create_ca_signed_cert",
        of(map! {"CN" => "a.org", "days" => 3}),
    );
    call("create_empty_crl", of(map! {}));
    assert_eq!(is_valid(dir), map! {"valid" => true}.into());

    let cert = format!("{dir}/koji/certs/a.org.crt");
    let info = call("cert_info", map! {"cert" => cert}).into_map().unwrap();
    assert_eq!(
        info.get("extensions"),
        Some(&Value::from(map! {
            "basicConstraints" => "CA:FALSE", "keyUsage" => "Digital Signature, Key Encipherment",
            "extendedKeyUsage" => "TLS Web Server Authentication", "subjectAltName" => "DNS:x.y, IP Address:1.2.3.4",
        }))
    );
    assert_eq!(
        info.get("issuer")
            .and_then(|issuer| issuer.as_map()?.str("CN")),
        Some("the authority")
    );
    let span = info.int("not_after").unwrap() - info.int("not_before").unwrap();
    assert_eq!(span, 3 * 86400);

    let first = call("revoke_cert", of(map! {"CN" => "a.org"}));
    assert!(first.as_str().unwrap().starts_with("Revoked Certificate"));
    let again = call("revoke_cert", of(map! {"CN" => "a.org"}));
    assert!(again.as_str().unwrap().contains("was already revoked"));
    let revoked = map! {"valid" => false, "error" => "certificate revoked"};
    assert_eq!(is_valid(dir), revoked.into());
}

#[test]
fn names_stay_in_their_directory() {
    for name in ["../../x", "", ".hidden", "a\nb"] {
        let kwargs = map! {"CN" => name, "cacert_path" => "/nonexistent", "tls_dir" => "t"};
        let made = invoke(
            &Context::default(),
            "tls.create_self_signed_cert",
            Vec::new(),
            kwargs,
        );
        let text = made.unwrap_err().to_string();
        assert!(text.contains("cannot be part of a file name"), "{text}");
    }
}

#[test]
fn an_index_that_cannot_be_read_is_no_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let of = |more: Map| {
        let mut kwargs = map! {"ca_name" => "koji", "cacert_path" => path};
        kwargs.0.extend(more.0);
        kwargs
    };
    call("create_ca", of(map! {}));
    for cn in ["a", "b"] {
        call("create_csr", of(map! {"CN" => cn}));
        call("create_ca_signed_cert", of(map! {"CN" => cn}));
    }
    call("revoke_cert", of(map! {"CN" => "a"}));
    let index = dir.path().join("koji/index.txt");
    let mut bytes = std::fs::read(&index).unwrap();
    bytes.extend(b"V\t\t\t00\tunknown\t/CN=M\xfcller\n");
    std::fs::write(&index, bytes).unwrap();
    call("revoke_cert", of(map! {"CN" => "b"}));
    let text = String::from_utf8_lossy(&std::fs::read(&index).unwrap()).into_owned();
    assert_eq!(
        text.lines().filter(|line| line.starts_with('R')).count(),
        2,
        "{text}"
    );
    assert!(text.contains("ller"), "{text}");

    let kwargs = map! {"ca_name" => "../koji", "cacert_path" => path};
    let out = invoke(&Context::default(), "tls.create_ca", Vec::new(), kwargs);
    assert!(
        out.unwrap_err()
            .to_string()
            .contains("is no directory below")
    );
}
