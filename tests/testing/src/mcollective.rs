//! MCollective as Debian packages it: servers (`mcollectived`) and a client (`mco`) in one network, with all files in a directory of
//! the test.

use super::cli::{Ran, run};
use super::process::Process;
use super::{short_dir, wait_until};
use halite::crypto::PrivateKey;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Name of the gateway's own key, and of the client's.
const KEYS: [&str; 2] = ["halite", "rip"];
/// Time limit; `mco` counts as hanging after it.
const LIMIT: Duration = Duration::from_secs(60);

/// Psych 4 takes permitted classes only by keyword and does not load symbols; MCollective 2.12 was written for earlier versions.
const SHIM: &str = "\
require 'yaml'
module OldPsych
  def safe_load(text, classes = nil, symbols = nil, aliases = nil, **named)
    named[:permitted_classes] = classes if classes
    named[:permitted_symbols] = symbols if symbols && !symbols.empty?
    named[:aliases] = aliases unless aliases.nil?
    super(text, **named)
  end

  def load(text, **)
    unsafe_load(text)
  end
end
Psych.singleton_class.prepend(OldPsych)
";

/// Security plugin of a network; for SSL and AES with their serializer, `marshal` or `yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// `psk`.
    Psk,
    /// `ssl`.
    Ssl(&'static str),
    /// `aes_security`.
    Aes(&'static str),
}

/// A network at a RabbitMQ broker, over STOMP.
pub struct Network {
    plugin: Plugin,
    port: u16,
    dir: tempfile::TempDir,
}

/// A server of the network, which is stopped when this is dropped.
pub struct Node {
    /// Its process.
    pub process: Process,
    /// Its log.
    pub log: PathBuf,
}

impl Network {
    /// A network with a plugin, at the STOMP port of a broker whose user is `guest`. `None`, with a message, if
    /// MCollective is not installed.
    pub fn new(plugin: Plugin, port: u16) -> Option<Network> {
        if ["/usr/sbin/mcollectived", "/usr/bin/mco"]
            .iter()
            .any(|p| !Path::new(p).exists())
        {
            eprintln!(
                "skipped: there is no MCollective; install mcollective and mcollective-client"
            );
            return None;
        }
        let network = Network {
            plugin,
            port,
            dir: short_dir(),
        };
        network.write("shim.rb", SHIM, 0o644);
        network.write("psk", "a secret that all of them share", 0o600);
        let pair = |name: &str| {
            let key = PrivateKey::generate(1048).expect("a key can be made");
            let private = key.to_pem();
            network.write(&format!("{name}.key"), &private, 0o600);
            network.write(&format!("{name}.pem"), &key.public().to_pem(), 0o644);
            key.public().to_pem()
        };
        pair("server");
        for name in KEYS {
            let public = pair(name);
            network.write(&format!("clients/{name}.pem"), &public, 0o644);
        }
        Some(network)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        let dir = path.parent().expect("files lie in a directory");
        std::fs::create_dir_all(dir).expect("a directory can be made");
        std::fs::write(&path, text).expect("a file can be written");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("a mode can be set");
    }

    /// Installs an agent for the client and for all servers started later.
    pub fn agent(&self, name: &str, ddl: &str, ruby: &str) {
        let place = |suffix: &str| format!("lib/mcollective/agent/{name}.{suffix}");
        self.write(&place("ddl"), ddl, 0o644);
        self.write(&place("rb"), ruby, 0o644);
    }

    fn config(&self, identity: &str, client: bool) -> String {
        let dir = self.dir.path().display();
        let port = self.port;
        let security = match self.plugin {
            Plugin::Psk => {
                let secret = std::fs::read_to_string(self.path("psk")).expect("the secret");
                format!("securityprovider = psk\nplugin.psk = {secret}\n")
            }
            Plugin::Ssl(serializer) => {
                let own = match client {
                    true => format!(
                        "plugin.ssl_client_private = {dir}/rip.key\nplugin.ssl_client_public = {dir}/rip.pem\n"
                    ),
                    false => format!("plugin.ssl_server_private = {dir}/server.key\n"),
                };
                format!(
                    "securityprovider = ssl\nplugin.ssl_serializer = {serializer}\n{own}\
                     plugin.ssl_server_public = {dir}/server.pem\nplugin.ssl_client_cert_dir = {dir}/clients\n"
                )
            }
            Plugin::Aes(serializer) => {
                let own = match client {
                    true => format!(
                        "plugin.aes.client_private = {dir}/rip.key\nplugin.aes.client_public = {dir}/rip.pem\n"
                    ),
                    false => format!("plugin.aes.server_private = {dir}/server.key\n"),
                };
                format!(
                    "securityprovider = aes_security\nplugin.aes.serializer = {serializer}\n{own}\
                     plugin.aes.server_public = {dir}/server.pem\nplugin.aes.client_cert_dir = {dir}/clients\n"
                )
            }
        };
        format!(
            "main_collective = mcollective\ncollectives = mcollective\n\
             libdir = {dir}/lib:/usr/share/mcollective/plugins\nlogfile = {dir}/{identity}.log\n\
             loglevel = info\ndaemonize = 0\nidentity = {identity}\ndirect_addressing = 1\n\
             connector = rabbitmq\nplugin.rabbitmq.vhost = /\nplugin.rabbitmq.pool.size = 1\n\
             plugin.rabbitmq.pool.1.host = 127.0.0.1\nplugin.rabbitmq.pool.1.port = {port}\n\
             plugin.rabbitmq.pool.1.user = guest\nplugin.rabbitmq.pool.1.password = guest\n{security}"
        )
    }

    fn ruby(&self, program: &str) -> Command {
        std::fs::create_dir_all(self.path("lib/mcollective")).expect("a directory can be made");
        let mut command = Command::new(program);
        command
            .env(
                "RUBYOPT",
                format!("-W0 -r{}", self.path("shim.rb").display()),
            )
            .env("HOME", self.dir.path())
            .env("LC_ALL", "C.UTF-8");
        command
    }

    /// Starts a server with facts (lines of YAML) and classes; returns when it is connected. `more` are further lines
    /// of its configuration.
    pub fn server(&self, identity: &str, facts: &str, classes: &[&str], more: &str) -> Node {
        let dir = self.dir.path().display();
        self.write(&format!("{identity}.yaml"), facts, 0o644);
        self.write(&format!("{identity}.classes"), &classes.join("\n"), 0o644);
        let config = format!(
            "{}factsource = yaml\nplugin.yaml = {dir}/{identity}.yaml\nclassesfile = {dir}/{identity}.classes\n{more}\n",
            self.config(identity, false)
        );
        self.write(&format!("{identity}.cfg"), &config, 0o600);
        let mut command = self.ruby("/usr/sbin/mcollectived");
        command
            .arg("--config")
            .arg(self.path(&format!("{identity}.cfg")))
            .arg("--no-daemonize");
        let log = self.path(&format!("{identity}.log"));
        let name = format!("mcollectived {identity}");
        let out = self.path(&format!("{identity}.out"));
        let mut process = Process::start(&name, &mut command, &out);
        wait_until(&format!("{name} is connected"), || {
            process.must_live();
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            said.contains("Connected to stomp")
        });
        Node { process, log }
    }

    /// Runs `mco` as the client `rip`.
    pub fn mco(&self, words: &[&str]) -> Ran {
        self.write("client.cfg", &self.config("rip.example", true), 0o600);
        let mut command = self.ruby("/usr/bin/mco");
        command
            .args(words)
            .arg("--config")
            .arg(self.path("client.cfg"));
        run(command, format!("mco {}", words.join(" ")), LIMIT)
    }

    /// The gateway's settings for this network, as lines below `gateways: collective:`, each indented by four. Includes the
    /// keys of both halves.
    pub fn settings(&self) -> String {
        let dir = self.dir.path().display();
        let (plugin, serializer) = match self.plugin {
            Plugin::Psk => ("psk", "marshal"),
            Plugin::Ssl(serializer) => ("ssl", serializer),
            Plugin::Aes(serializer) => ("aes", serializer),
        };
        let mut lines = vec![
            "connector: rabbitmq".to_owned(),
            format!("servers: ['127.0.0.1:{}']", self.port),
            "user: guest".to_owned(),
            "password: guest".to_owned(),
            "identity: halite.example".to_owned(),
            format!("security: {plugin}"),
            format!("serializer: {serializer}"),
            format!("psk_file: {dir}/psk"),
            format!("client_certs: {dir}/clients"),
        ];
        for half in ["private", "public"] {
            let suffix = if half == "private" { "key" } else { "pem" };
            lines.push(format!("client_{half}: {dir}/halite.{suffix}"));
            lines.push(format!("server_{half}: {dir}/server.{suffix}"));
        }
        lines.iter().map(|line| format!("    {line}\n")).collect()
    }
}
