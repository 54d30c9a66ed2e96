//! Cases in files: a tree of pillar files, options of the master, requests of minions.

use halite::config::{Flavour, MasterConfig};
use halite::map;
use halite::render::pillar::{PillarCompiler, PillarRequest};
use halite::store::Stores;
use halite::wire::{Map, Value, yaml};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub const LONG: Duration = Duration::from_secs(60);

/// Options of a master with the requests that it gets.
pub struct Case {
    pub name: String,
    /// Options, `{root}` filled in.
    pub conf: TempDir,
    pub requests: Vec<Map>,
}

/// Writes the files of `text`, each below a line `=== path`.
pub fn write_tree(root: &Path, text: &str) {
    for part in text.split("=== ").skip(1) {
        let (path, content) = part.split_once('\n').expect("a path on a line of its own");
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a path below the root")).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Reads cases; `{root}` in options stands for `root`.
pub fn read_cases(text: &str, root: &Path, series: &str) -> Vec<Case> {
    let text = text.replace("{root}", &root.to_string_lossy());
    let cases = yaml::parse(&text).unwrap();
    cases
        .as_array()
        .unwrap()
        .iter()
        .map(|case| read_case(case.as_map().unwrap(), series))
        .collect()
}

fn read_case(case: &Map, series: &str) -> Case {
    let conf = tempfile::tempdir().unwrap();
    let dir = conf.path().join("salt");
    fs::create_dir(&dir).unwrap();
    let mut options = case.get("config").unwrap().as_map().unwrap().clone();
    options.set("root_dir", conf.path().to_string_lossy().as_ref());
    options.set("id", "master");
    options.set("salt_series", series);
    options.set("user", halite::sys::process::user_name());
    fs::write(dir.join("master"), yaml::emit(&Value::Map(options), false)).unwrap();
    let requests = case.get("requests").unwrap().as_array().unwrap();
    Case {
        name: case.str("name").unwrap().to_owned(),
        conf,
        requests: requests
            .iter()
            .map(|r| r.as_map().unwrap().clone())
            .collect(),
    }
}

impl Case {
    pub fn dir(&self) -> std::path::PathBuf {
        self.conf.path().join("salt")
    }

    /// Puts what minions left behind into the stores, as files that stock reads as well.
    pub fn fill_stores(&self) {
        let config = MasterConfig::load(&self.dir(), Flavour::Salt).unwrap();
        let stores = Stores::open(&config);
        let (minions, mines) = (stores.minions, stores.mine);
        let keys = config.pki_dir.join("minions");
        fs::create_dir_all(&keys).unwrap();
        fs::create_dir_all(config.cachedir.join("proc")).unwrap();
        let for_web =
            map! {"__data__" => "web only", "__saltmine_acl__" => 1, "allow_tgt" => "web*"};
        for (id, os, address) in [
            ("web1", "Debian", "10.0.0.1"),
            ("web2", "RedHat", "10.0.0.2"),
            ("db1", "Debian", "10.0.0.3"),
        ] {
            fs::write(keys.join(id), "-----BEGIN PUBLIC KEY-----\n").unwrap();
            let grains = map! {"id" => id, "os" => os};
            let id = id.parse().unwrap();
            minions.store(&id, &grains, &map! {"given" => 1}).unwrap();
            let mine = map! {
                "network.ip_addrs" => vec![address.to_owned()],
                "test.id" => id.as_str(),
                "for_web" => for_web.clone(),
            };
            mines.put(&id, mine, true).unwrap();
        }
    }

    /// The pillars that halite compiles, as JSON.
    pub fn halite(&self) -> Vec<String> {
        let config = MasterConfig::load(&self.dir(), Flavour::Salt).unwrap();
        let master = PillarCompiler::new(&config);
        let pillar = |request: &Map| match master.compile(&read_request(request), LONG) {
            Ok(pillar) => serde_json::to_string(&pillar).unwrap(),
            Err(e) => serde_json::to_string(&halite::map! {"_raised" => e.to_string()}).unwrap(),
        };
        self.requests.iter().map(pillar).collect()
    }
}

pub fn read_request(given: &Map) -> PillarRequest {
    let id = given.str("id").unwrap();
    let map = |name| {
        given
            .get(name)
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default()
    };
    let mut grains: Map = map("grains");
    grains.set("id", id);
    PillarRequest {
        id: id.parse().unwrap(),
        grains: Arc::new(grains),
        saltenv: given.str("saltenv").map(str::to_owned),
        pillarenv: given.str("pillarenv").map(str::to_owned),
        ext: given.get("ext").cloned(),
        pillar_override: map("pillar_override"),
        extra_minion_data: map("extra_minion_data"),
        clean_cache: false,
    }
}

/// Makes `repo` with the branches main and dev and the tag v1, of the directories of these
/// names, and `repo2` a repository with a branch main.
pub fn make_repositories(root: &Path) {
    let git = |dir: &Path, args: &[&str]| {
        let mut command = Command::new("git");
        command
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        let output = command.args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {said}");
    };
    let repo = root.join("repo");
    fs::rename(root.join("main"), &repo).unwrap();
    for dir in [&repo, &root.join("repo2")] {
        git(dir, &["init", "-q", "-b", "main"]);
        git(dir, &["add", "."]);
        git(dir, &["commit", "-q", "-m", "one"]);
    }
    git(&repo, &["tag", "v1"]);
    git(&repo, &["checkout", "-q", "-b", "dev"]);
    git(&repo, &["rm", "-q", "-r", "."]);
    git(&repo, &["--work-tree", "../dev", "add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "two"]);
}
