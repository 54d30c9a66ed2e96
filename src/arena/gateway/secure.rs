//! The settings of the connection to the broker, and a check of the files that they name.

use crate::mqtt::MqttSettings;
use halite_config::ArenaGateway;
use halite_gateway::key_files::{File, KeyFileError};
use std::time::Duration;

/// Time between pings of MQTT.
const PING: Duration = Duration::from_secs(30);
/// Space for topic and properties of a message, in bytes.
const AROUND: usize = 4096;
/// Messages that may be queued for sending.
const WAITING: usize = 20_000;

/// The settings of the connection. There is no last will: nobody acts on the end of an orchestrator.
pub(super) fn connection(settings: &ArenaGateway) -> MqttSettings {
    MqttSettings {
        servers: settings.servers.clone(),
        client_id: settings.client_id.clone(),
        user: settings.user.clone(),
        password: settings.password.clone(),
        tls: settings.tls,
        tls_ca: settings.tls_ca.clone(),
        tls_cert: settings.tls_cert.clone(),
        tls_key: settings.tls_key.clone(),
        keep_alive: PING,
        will: None,
        max_packet: settings.max_message + AROUND,
        max_waiting: WAITING,
    }
}

/// Checks the files that the settings name.
///
/// # Errors
/// A file cannot be read, can be read or changed by too many accounts, or does not contain a key or certificate.
pub(super) fn check(settings: &ArenaGateway) -> Result<(), KeyFileError> {
    let file = |setting, path| File::new(super::NAME, setting, path);
    for (setting, path) in [
        ("tls_ca", &settings.tls_ca),
        ("tls_cert", &settings.tls_cert),
    ] {
        let file = file(setting, path);
        if !path.as_os_str().is_empty() && !file.public()?.contains("-----BEGIN CERTIFICATE") {
            return Err(file.bad("it does not contain a certificate in PEM form"));
        }
    }
    if !settings.tls_key.as_os_str().is_empty() {
        let key = file("tls_key", &settings.tls_key);
        // Any kind of key that OpenSSL supports may be used.
        if !key.secret()?.contains("PRIVATE KEY-----") {
            return Err(key.bad("it does not contain a private key in PEM form"));
        }
    }
    Ok(())
}
