//! A master's directory for the tests of `halite-key`, and running a program on it.

use halite::crypto::HashType;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The two fixed key pairs of the vectors.
pub struct Pairs {
    pub master_private: String,
    pub master_public: String,
    pub minion_public: String,
}

pub fn pairs() -> Pairs {
    let json: serde_json::Value =
        serde_json::from_str(include_str!("../../vectors/keys.json")).unwrap();
    let text = |who: &str, what: &str| json[who][what].as_str().unwrap().to_owned();
    Pairs {
        master_private: text("master", "private_pem"),
        master_public: text("master", "public_pem"),
        minion_public: text("minion", "public_pem"),
    }
}

/// Keys of the fixture: directory, ids.
const KEYS: [(&str, &[&str]); 4] = [
    ("minions", &["m1", "m2", "Zed"]),
    ("minions_pre", &["db1", "web1", "Web2"]),
    ("minions_denied", &["den1"]),
    ("minions_rejected", &["bad1"]),
];

/// A configuration directory called `salt`, with keys and caches below its own root.
pub struct Fixture {
    root: tempfile::TempDir,
}

/// What a run printed.
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub status: i32,
}

impl Fixture {
    pub fn new(series: &str) -> Fixture {
        let fixture = Fixture {
            root: tempfile::tempdir().unwrap(),
        };
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid())
            .unwrap()
            .unwrap()
            .name;
        let root = fixture.root().display().to_string();
        let config = format!(
            "root_dir: {root}\nuser: {user}\nid: hub_master\nsalt_series: '{series}'\nsock_dir: {root}/run\nkey_logfile: {root}/key.log\n"
        );
        fixture.write("salt/master", &config);
        let pairs = pairs();
        for (state, ids) in KEYS {
            for id in ids {
                fixture.put_key(state, id, &pairs.minion_public);
            }
        }
        fixture.write("etc/salt/pki/master/master.pem", &pairs.master_private);
        fixture.write("etc/salt/pki/master/master.pub", &pairs.master_public);
        fixture.mode("etc/salt/pki/master/master.pem", 0o400);
        for id in ["m1", "bad1", "ghost"] {
            for file in [
                "minions/ID/data.p",
                "grains/ID.p",
                "pillar/ID.p",
                "pillar/ID:dev.p",
                "sessions/ID",
            ] {
                // The two layouts never stand side by side.
                if file.starts_with("minions") == (series == "3008")
                    && !file.starts_with("sessions")
                {
                    continue;
                }
                fixture.write(
                    &format!("var/cache/salt/master/{}", file.replace("ID", id)),
                    "\u{1}",
                );
            }
        }
        fixture
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    pub fn pki(&self, below: &str) -> PathBuf {
        self.path("etc/salt/pki/master").join(below)
    }

    pub fn cache(&self, below: &str) -> PathBuf {
        self.path("var/cache/salt/master").join(below)
    }

    pub fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn config(&self, line: &str) {
        let text = fs::read_to_string(self.path("salt/master")).unwrap();
        self.write("salt/master", &format!("{text}{line}\n"));
    }

    fn mode(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), PermissionsExt::from_mode(mode)).unwrap();
    }

    pub fn put_key(&self, state: &str, id: &str, text: &str) {
        let below = format!("etc/salt/pki/master/{state}/{id}");
        self.write(&below, text);
        self.mode(&below, 0o600);
    }

    /// Ids in a key directory.
    pub fn ids(&self, state: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.pki(state)) else {
            return Vec::new();
        };
        let mut out: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        out.sort();
        out
    }

    /// Runs `program -c DIR args` in the root. `ROOT` in arguments stands for the root, and
    /// the other way round in what is printed.
    pub fn run_program(&self, program: &Path, args: &[&str], input: &str) -> Ran {
        let root = self.root().display().to_string();
        let mut child = Command::new(program)
            .arg("-c")
            .arg(self.path("salt"))
            .args(args.iter().map(|a| a.replace("ROOT", &root)))
            .current_dir(self.root())
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that asks nothing may have ended before the answer is there.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let out = child.wait_with_output().unwrap();
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap().replace(&root, "ROOT");
        Ran {
            stdout: text(out.stdout),
            stderr: text(out.stderr),
            status: out.status.code().unwrap_or(-1),
        }
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.answer(args, "")
    }

    pub fn answer(&self, args: &[&str], input: &str) -> Ran {
        self.run_program(Path::new(env!("CARGO_BIN_EXE_halite-key")), args, input)
    }

    /// What stands below the root: path, then mode and digest of files.
    pub fn tree(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        walk(self.root(), self.root(), &mut out);
        out
    }
}

fn walk(root: &Path, dir: &Path, out: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            out.insert(name, "directory".into());
            walk(root, &path, out);
        } else if name != "key.log" {
            let content = fs::read_to_string(&path).unwrap_or_default();
            let content = content.replace(&root.display().to_string(), "ROOT");
            let mode = meta.permissions().mode() & 0o777;
            let digest = HashType::Md5.hex(content.as_bytes());
            out.insert(name, format!("{mode:o} {digest}"));
        }
    }
}
