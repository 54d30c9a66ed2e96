//! `rabbitmq-server` with STOMP, in its own environment: ports, data, cookie and Erlang's port mapper.

use super::authority::Issued;
use super::ports::{Ports, listens};
use super::process::Process;
use super::{short_dir, wait_for, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::Command;

const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A server on loopback ports. Dropping it stops it and its port mapper.
pub struct RabbitMq {
    /// Its STOMP port; the same after a restart.
    pub port: u16,
    ports: [u16; 4],
    process: Option<Process>,
    dir: tempfile::TempDir,
}

impl RabbitMq {
    /// Starts a server with the exchanges of these collectives, and users guest and choria (password `s3cret`). `None`, with
    /// a message, if it is not installed.
    pub fn start(collectives: &[&str]) -> Option<RabbitMq> {
        RabbitMq::launch(collectives, None)
    }

    /// The same with STOMP only over TLS, for clients with certificates of the same CA.
    pub fn start_tls(collectives: &[&str], ca: &Path, own: &Issued) -> Option<RabbitMq> {
        RabbitMq::launch(collectives, Some((ca, own)))
    }

    fn launch(collectives: &[&str], tls: Option<(&Path, &Issued)>) -> Option<RabbitMq> {
        if !Path::new(SERVER).exists() {
            eprintln!("skipped: there is no {SERVER}; install the package rabbitmq-server");
            return None;
        }
        let held = Ports::hold(4);
        let ports: [u16; 4] = held.numbers().try_into().expect("as many as asked for");
        held.release();
        let mut server = RabbitMq {
            port: ports[0],
            ports,
            process: None,
            dir: short_dir(),
        };
        server.configure(collectives, tls);
        server.restart();
        Some(server)
    }

    fn configure(&self, collectives: &[&str], tls: Option<(&Path, &Issued)>) {
        let [stomp, amqp, ..] = self.ports;
        let write = |name: &str, text: String| {
            std::fs::write(self.path(name), text).expect("a file can be written");
        };
        write("plugins", "[rabbitmq_stomp].\n".into());
        let definitions = self.path("definitions.json").display().to_string();
        let listener = match tls {
            None => format!("stomp.listeners.tcp.1 = 127.0.0.1:{stomp}"),
            Some((ca, own)) => format!(
                "stomp.listeners.tcp = none\nstomp.listeners.ssl.1 = 127.0.0.1:{stomp}\n\
                 ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
                 ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true",
                ca.display(),
                own.certificate.display(),
                own.key.display()
            ),
        };
        write(
            "rabbitmq.conf",
            format!(
                "listeners.tcp.1 = 127.0.0.1:{amqp}\n{listener}\n\
                 load_definitions = {definitions}\nlog.console = true\nlog.console.level = info\n\
                 log.file = false\nvm_memory_high_watermark.absolute = 500MB\ndisk_free_limit.absolute = 1MB\n"
            ),
        );
        let user = |name: &str, password: &str| serde_json::json!({"name": name, "password": password, "tags": "administrator"});
        let may = |name: &str| serde_json::json!({"user": name, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"});
        let exchange = |name: String, kind: &str| {
            serde_json::json!({"name": name, "vhost": "/", "type": kind, "durable": true,
                "auto_delete": false, "internal": false, "arguments": {}})
        };
        let mut exchanges = vec![exchange("mcollective_reply".into(), "direct")];
        for name in collectives {
            exchanges.push(exchange(format!("{name}_broadcast"), "topic"));
            exchanges.push(exchange(format!("{name}_directed"), "direct"));
        }
        let definitions = serde_json::json!({
            "vhosts": [{"name": "/"}],
            "users": [user("guest", "guest"), user("choria", "s3cret")],
            "permissions": [may("guest"), may("choria")],
            "exchanges": exchanges,
        });
        write("definitions.json", definitions.to_string());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn environment(&self, command: &mut Command) {
        let [_, amqp, dist, epmd] = self.ports;
        command
            .env("HOME", self.dir.path())
            .env("ERL_EPMD_PORT", epmd.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", format!("t{amqp}@localhost"))
            .env("RABBITMQ_MNESIA_BASE", self.path("mnesia"))
            .env("RABBITMQ_LOG_BASE", self.path("logs"))
            .env("RABBITMQ_DIST_PORT", dist.to_string())
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.path("plugins"))
            .env("RABBITMQ_CONFIG_FILE", self.path("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", self.path("none"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 1:1 +sbwt none")
            .current_dir(self.dir.path());
    }

    /// Starts it again, after [`RabbitMq::kill`].
    pub fn restart(&mut self) {
        let mut command = Command::new(SERVER);
        self.environment(&mut command);
        let log = self.path("log");
        let _ = std::fs::remove_file(&log);
        let mut process = Process::start("rabbitmq-server", &mut command, &log);
        wait_until("rabbitmq-server runs", || {
            process.must_live();
            process.output().contains("completed with") && listens(self.port)
        });
        self.process = Some(process);
    }

    /// Kills it; its data on disk stays.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::SIGKILL);
            wait_until("rabbitmq-server has ended", || process.status().is_some());
        }
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its log since the last start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The port mapper that it started leaves its process group, so it is found by its environment.
    fn mappers(&self) -> Vec<Pid> {
        let ours = format!("HOME={}", self.dir.path().display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
                continue;
            };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let mut variables = environment.split(|octet| *octet == 0);
            if variables.any(|variable| variable == ours.as_bytes()) {
                found.push(Pid::from_raw(pid));
            }
        }
        found
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        // Stop the server first, so that it does not start another mapper.
        if let Some(process) = &mut self.process {
            process.signal(Signal::SIGKILL);
        }
        self.process = None;
        for pid in self.mappers() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        if !std::thread::panicking() {
            wait_for("nothing is left of rabbitmq-server", || {
                self.mappers().is_empty().then_some(())
            });
        }
    }
}
