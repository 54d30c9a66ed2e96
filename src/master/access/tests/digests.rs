//! Keys of accounts whose files the master cannot read.

use super::*;

/// The master cannot read the files of others: it has the digests of their keys.
#[test]
fn a_digest_stands_for_a_key_that_the_master_cannot_read() {
    let acl = map! {
        "publisher_acl" => map! {"fred" => words(&["test.*"]), ".*" => words(&["test.ping"])},
        "api" => map! {"port" => 1, "disable_ssl" => true, "user" => "halite-api"},
    };
    let (dir, mut access, keys) = access(acl, &["saltmaster", "fred", "halite-api"]);
    let config = MasterConfig::from_map(
        map! {
            "root_dir" => dir.path().to_str().unwrap(), "sock_dir" => "/run", "user" => "saltmaster",
            "api" => map! {"port" => 1, "disable_ssl" => true, "user" => "halite-api"},
        },
        dir.path(),
    )
    .unwrap();
    let digest = |path: &std::path::Path, key: &str| {
        let digest = halite_config::paths::master::key_digest(path);
        std::fs::write(digest, halite_crypto::HashType::Sha256.hex(key.as_bytes())).unwrap();
        let _ = std::fs::remove_file(path);
    };
    digest(&config.client_key("fred"), &keys["fred"]);
    let mut by = |user: &str, key: &str| {
        let load = map! {"user" => user, "key" => key};
        access.authenticate(&load, &Map::new(), "peer")
    };
    let fred = by("fred", &keys["fred"]).unwrap();
    assert!(may(&fred, "test.ping") && !may(&fred, "cmd.run"));
    let of_fred = halite_crypto::HashType::Sha256.hex(keys["fred"].as_bytes());
    let long = format!("{}{}", keys["fred"], "x".repeat(100_000));
    for key in ["", "x", of_fred.as_str(), &long, &keys["halite-api"]] {
        assert!(by("fred", key).is_err(), "{key:.80}");
    }
    // The service has a key of its own, which is nobody's, and its account has no permissions.
    digest(&config.api_key(), &keys["halite-api"]);
    assert!(local::is_api(&config, &keys["halite-api"]));
    for key in ["", &keys["fred"], &keys["saltmaster"]] {
        assert!(!local::is_api(&config, key));
    }
    for user in [
        "halite-api",
        "fred",
        "root",
        "saltmaster",
        "sudo_fred",
        "nobody",
    ] {
        assert!(by(user, &keys["halite-api"]).is_err(), "{user}");
    }
}
