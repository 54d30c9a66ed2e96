//! Names, fingerprints, clean keys, random text.

use super::*;

#[test]
fn fingerprints() {
    let keys = vectors("keys");
    for v in list(&vectors("fingerprints")) {
        let hash: HashType = text(&v["hash_type"]).parse().unwrap();
        let expected = text(&v["fingerprint"]);
        if let Some(file) = v["file"].as_str() {
            let who = if file == "master.pub" {
                "master"
            } else {
                "minion"
            };
            let pem = text(&keys[who]["public_pem"]);
            for form in [pem, &clean_key(pem), &pem.replace('\n', "\r\n")] {
                assert_eq!(finger(form, hash), expected);
            }
            continue;
        }
        // 3008.3 hashes a text with its armour, which matches no file; see reference 2.3.
        let clean = clean_key(text(&keys["minion"]["public_pem"]));
        match text(&v["produced_by"]) {
            "3008.3" => assert_eq!(hash.hex(clean.as_bytes()), expected.replace(':', "")),
            _ => assert_eq!(finger(&clean, hash), expected),
        }
    }
}

/// From `pem_finger` of stock 3006.28, the same for a text and for a file of it.
#[test]
fn fingerprints_of_odd_text() {
    for (odd, md5) in [
        ("no pem", "a4:9c:12:78:68:ee:5c:dc:87:a7:09:14:12:10:e4:e4"),
        (
            "line\r\nother",
            "27:0e:35:cf:94:95:18:68:8f:0d:36:fb:70:d2:56:6e",
        ),
        (
            "-----BEGIN X-----\nAB",
            "6b:bb:53:fd:fc:b7:68:cf:f4:cf:07:79:bb:32:37:e1",
        ),
        (
            "-----BEGIN X-----\n-----END X-----",
            "d4:1d:8c:d9:8f:00:b2:04:e9:80:09:98:ec:f8:42:7e",
        ),
        (
            "  -----BEGIN X-----\r\n\r\n AB \r\nCD\n \n-----END X-----  \n\n",
            "1e:5b:fc:f6:49:2d:9f:df:88:92:8a:a5:b3:51:92:ec",
        ),
        (
            "\nnote\n-----BEGIN X-----\nAB\n-----END X-----\n",
            "87:fe:24:fc:0f:be:c6:b5:b5:a2:7a:6d:51:48:e8:13",
        ),
    ] {
        assert_eq!(finger(odd, HashType::Md5), md5, "{odd:?}");
    }
}

#[test]
fn clean_keys() {
    for (dirty, clean) in CLEAN {
        assert_eq!(clean_key(dirty), *clean, "{dirty:?}");
        assert_eq!(clean_key(clean), *clean);
    }
}

/// From `clean_key` of stock 3006.28 and 3008.3.
const CLEAN: &[(&str, &str)] = &[
    ("", ""),
    (" \t\r\n", ""),
    ("a\r\nb\rc\n\n", "a\nb\nc"),
    (
        "\x1ca\x0bb\x0cc\x1dd\u{85}e\u{2028}f\x1f",
        "a\nb\nc\nd\ne\nf",
    ),
    ("a \n b", "a \n b"),
    ("a\n\r\nb", "a\n\nb"),
    ("a\n\rb\x1fc", "a\n\nb\x1fc"),
];

#[test]
fn names() {
    for name in ["OAEP-SHA1", "OAEP-SHA224"] {
        assert_eq!(name.parse::<Encryption>().unwrap().to_string(), name);
    }
    for name in ["PKCS1v15-SHA1", "PKCS1v15-SHA224"] {
        assert_eq!(name.parse::<Signing>().unwrap().to_string(), name);
    }
    for name in ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"] {
        assert_eq!(name.parse::<HashType>().unwrap().to_string(), name);
    }
    assert_eq!(Encryption::default().name(), "OAEP-SHA1");
    assert_eq!(Signing::default().name(), "PKCS1v15-SHA1");
    assert_eq!(HashType::default().name(), "sha256");
    for bad in ["", "oaep-sha1", "OAEP-SHA512", "PKCS1v15-SHA512"] {
        let error = UnsupportedAlgorithm(bad.to_owned());
        assert_eq!(bad.parse::<Encryption>(), Err(error.clone()));
        assert_eq!(bad.parse::<Signing>(), Err(error));
    }
    assert!("sha3_256".parse::<HashType>().is_err());
}

#[test]
fn random_text() {
    let made = nonce();
    assert_eq!(made.len(), 32);
    assert!(made.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    assert_ne!(made, nonce());
    assert_eq!(random_hex(0), "");
    assert_eq!(random_hex(5).len(), 10);
}

#[test]
fn compares() {
    assert!(constant_time_eq(b"", b"") && constant_time_eq(b"ab", b"ab"));
    assert!(!constant_time_eq(b"ab", b"ac") && !constant_time_eq(b"ab", b"abc"));
}
