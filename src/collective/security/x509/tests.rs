//! Certificates that are accepted, and those that are refused.

use super::super::testing::{CertificateSpec, DAY, NOW, Pair};
use super::*;

fn authority(pair: &Pair) -> Authority {
    Authority::from_pem(&pair.pem()).unwrap()
}

fn verify(text: &str, ca: &Pair, now: i64) -> Result<Verified, Refused> {
    Chain::from_pem(text)?.verify(&authority(ca), now)
}

/// The reason why a certificate was refused.
fn why(result: Result<Verified, Refused>) -> String {
    match result {
        Err(Refused::Certificate(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_of_the_ca_is_good_in_its_time() {
    let ca = Pair::ca("CA");
    let leaf = ca.sign("rip.mcollective");
    let good = verify(&leaf.pem(), &ca, NOW).unwrap();
    assert_eq!(good.names, ["rip.mcollective"]);
    assert_eq!(good.key, leaf.public());
    assert_eq!((good.not_before, good.not_after), (NOW - DAY, NOW + DAY));
    for now in [NOW - DAY, NOW + DAY - 1] {
        assert!(verify(&leaf.pem(), &ca, now).is_ok());
    }
    let late = why(verify(&leaf.pem(), &ca, NOW + DAY));
    assert!(late.contains("expired on Nov 22"), "{late}");
    let early = why(verify(&leaf.pem(), &ca, NOW - DAY - 1));
    assert!(
        early.contains("not good before") && early.contains("clock"),
        "{early}"
    );
    assert_eq!(authority(&ca).key().unwrap(), ca.public());
}

#[test]
fn the_ca_itself_may_have_expired() {
    let old = CertificateSpec {
        name: "CA",
        ca: true,
        until: NOW - 1,
        ..CertificateSpec::default()
    }
    .by(None);
    let leaf = old.sign("rip.mcollective");
    let words = why(verify(&leaf.pem(), &old, NOW));
    assert!(words.contains("expired"), "{words}");
}

#[test]
fn a_certificate_of_another_ca_is_refused() {
    let (ca, other) = (Pair::ca("CA"), Pair::ca("CA"));
    let leaf = other.sign("rip.mcollective");
    why(verify(&leaf.pem(), &ca, NOW));
    // Including its CA in the chain does not help, nor does a self-signature.
    let both = leaf.pem() + &other.pem();
    why(verify(&both, &ca, NOW));
    why(verify(&CertificateSpec::default().by(None).pem(), &ca, NOW));
    // A leaf is not a CA.
    let under = ca.sign("ordinary");
    let below = under.sign("rip.mcollective");
    why(verify(&(below.pem() + &under.pem()), &ca, NOW));
}

#[test]
fn what_it_may_be_used_for() {
    let ca = Pair::ca("CA");
    for (client, good) in [(None, true), (Some(true), true), (Some(false), false)] {
        let leaf = CertificateSpec {
            client,
            ..CertificateSpec::default()
        }
        .by(Some(&ca));
        assert_eq!(verify(&leaf.pem(), &ca, NOW).is_ok(), good, "{client:?}");
    }
}

#[test]
fn chains_lead_over_those_between() {
    let ca = Pair::ca("CA");
    let middle = CertificateSpec {
        name: "Middle",
        ca: true,
        until: NOW + 60,
        ..CertificateSpec::default()
    };
    let middle = middle.by(Some(&ca));
    let leaf = middle.sign("rip.mcollective");
    let chain = leaf.pem() + &middle.pem();
    let good = verify(&chain, &ca, NOW).unwrap();
    assert_eq!((good.not_before, good.not_after), (NOW - DAY, NOW + 60));
    assert!(why(verify(&chain, &ca, NOW + 60)).contains("expired"));
    why(verify(&leaf.pem(), &ca, NOW));
    // The leaf comes first.
    let turned = verify(&(middle.pem() + &leaf.pem()), &ca, NOW).unwrap();
    assert_eq!(turned.names, ["Middle"]);
    // The file of a CA may have both, or only the intermediate.
    let bundle = Authority::from_pem(&(ca.pem() + &middle.pem())).unwrap();
    let alone = Chain::from_pem(&leaf.pem()).unwrap();
    assert!(alone.verify(&bundle, NOW).is_ok());
    assert!(alone.verify(&authority(&middle), NOW).is_ok());
}

#[test]
fn all_names_count_that_callers_can_have() {
    let ca = Pair::ca("CA");
    let dns = &["alice.mcollective", "*.mcollective", "alice.mcollective"];
    let wish = CertificateSpec {
        name: "rip.mcollective",
        dns,
        ..CertificateSpec::default()
    };
    let good = verify(&wish.by(Some(&ca)).pem(), &ca, NOW).unwrap();
    assert_eq!(good.names, ["alice.mcollective", "rip.mcollective"]);
    let odd = ca.sign("a b/c.mcollective");
    assert!(verify(&odd.pem(), &ca, NOW).unwrap().names.is_empty());
    let zero = ca.sign("rip.mcollective\0.evil");
    assert!(verify(&zero.pem(), &ca, NOW).unwrap().names.is_empty());
}

#[test]
fn limits_stand_before_the_work() {
    let ca = Pair::ca("CA");
    let pem = ca.sign("rip.mcollective").pem();
    assert!(Chain::from_pem(&pem.repeat(4)).is_ok());
    let many = Chain::from_pem(&pem.repeat(5)).unwrap_err();
    assert_eq!(many, Refused::TooLarge("certificates of a chain"));
    let long = Chain::from_pem(&(pem + &"\n".repeat(MAX_PEM))).unwrap_err();
    assert_eq!(long, Refused::TooLarge("bytes of certificates"));
    for bits in [512, 1016] {
        let weak = CertificateSpec {
            bits,
            ..CertificateSpec::default()
        }
        .by(Some(&ca));
        let words = why(verify(&weak.pem(), &ca, NOW));
        assert!(words.contains(&format!("{bits} bits")), "{words}");
    }
}

#[test]
fn what_is_no_certificate_is_refused() {
    let ca = Pair::ca("CA");
    let pem = ca.sign("rip.mcollective").pem();
    let public = ca.public().to_pem();
    for text in [
        "",
        "x",
        &public,
        &pem[..pem.len() / 2],
        &pem.replace("MII", "MIJ"),
    ] {
        assert!(Chain::from_pem(text).is_err(), "{text}");
    }
    assert!(Authority::from_pem("").unwrap_err().contains("BEGIN"));
    assert!(Authority::from_pem(&public).is_err());
}

#[test]
fn keys_of_other_kinds_are_named() {
    use openssl::ec::{EcGroup, EcKey};
    use openssl::pkey::PKey;
    let ca = Pair::ca("CA");
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let leaf = CertificateSpec::default().with(key, Some(&ca));
    assert!(why(verify(&leaf.pem(), &ca, NOW)).contains("RSA"));
}
