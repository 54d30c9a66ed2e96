//! State functions return what stock's return, with the same files afterwards: the calls of `tests/data/states`, recorded
//! by `tests/data/make_states.py`.

use halite::config::load_minion;
use halite::modules::all_grains;
use halite::modules::execution::{self, Context};
use halite::wire::{Map, Value, map};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What differs from run to run.
const IGNORED: [&str; 5] = ["start_time", "duration", "__run_num__", "pid", "__sls__"];
const MARK: &str = "Traceback (most recent call last):";

/// Name the directory of the process that plays the calls, and the file with the calls.
const CALLS: &str = "HALITE_TEST_STATES_CALLS";
const STAGE: &str = "HALITE_TEST_STATES";

/// What a host of that family says of itself.
const REDHAT: &str = ", os_family: RedHat, os: CentOS, osfullname: CentOS Linux, osrelease: '8.5', osmajorrelease: 8";

struct Stage {
    dir: PathBuf,
    ctx: Context,
}

impl Stage {
    /// For the calls of a file; its name may end with the family of the host.
    fn new(dir: PathBuf, file: &Path) -> Stage {
        let work = dir.display();
        let family = match file.file_stem() {
            Some(name) if name.to_string_lossy().ends_with("_redhat") => REDHAT,
            _ => "",
        };
        let conf = dir.join("conf/halite");
        std::fs::create_dir_all(&conf).unwrap();
        let text = format!(
            "id: m1\nfile_client: local\nroot_dir: {work}/root-halite\ncachedir: {work}/root-halite/var/cache/salt/minion\n\
             grains: {{gl: [a, b], gm: {{l: [a], k: v, deep: {{x: 1}}}}, gt: t, gn: null{family}}}\n\
             file_roots: {{base: [{work}/srv]}}\npillar_roots: {{base: [{work}/pillar]}}\n"
        );
        std::fs::write(conf.join("minion"), text).unwrap();
        let config = load_minion(&conf).unwrap();
        let ctx = Context {
            id: "m1".to_owned(),
            grains: Arc::new(all_grains(&config)),
            opts: Arc::new(config.as_map()),
            cachedir: config.cachedir.clone(),
            job: Some(
                map! {"tgt" => "salt-call", "jid" => "20261121120000000001", "fun" => "state.single"},
            ),
            ..Context::default()
        };
        Stage { dir, ctx }
    }

    fn sandbox(&self) -> PathBuf {
        self.dir.join("D")
    }

    fn filled(&self, value: &Json) -> Json {
        let text = |text: &str| {
            let sandbox = self.sandbox();
            text.replace("{D}", &sandbox.to_string_lossy())
                .replace("{W}", &self.dir.to_string_lossy())
        };
        match value {
            Json::String(one) => text(one).into(),
            Json::Array(list) => list.iter().map(|one| self.filled(one)).collect(),
            Json::Object(map) => map.iter().map(|(k, v)| (text(k), self.filled(v))).collect(),
            other => other.clone(),
        }
    }

    /// The content of a file without the paths of the stage.
    fn plain_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let work = self.dir.to_string_lossy().into_owned();
        let mut left = &bytes[..];
        let mut out = Vec::with_capacity(bytes.len());
        while !left.is_empty() {
            if let Some(rest) = left.strip_prefix(format!("{work}/D").as_bytes()) {
                out.extend(b"{D}");
                left = rest;
            } else if let Some(rest) = left.strip_prefix(work.as_bytes()) {
                out.extend(b"{W}");
                left = rest;
            } else {
                out.push(left[0]);
                left = &left[1..];
            }
        }
        out
    }

    /// A result without what differs from run to run.
    fn plain(&self, value: &Json) -> Json {
        let text = |mut text: String| {
            const TIME: &str = "'query time': {";
            if let Some((head, rest)) = text.split_once(TIME)
                && let Some((_, rest)) = rest.split_once('}')
            {
                text = format!("{head}{TIME}}}{rest}");
            }
            // How long a refused connection took.
            const REFUSED: &str = "to 127.0.0.1 port 9 after ";
            if let Some((head, rest)) = text.split_once(REFUSED)
                && let Some((_, rest)) = rest.split_once(" ms")
            {
                text = format!("{head}{REFUSED}0 ms{rest}");
            }
            text.replace(&*self.sandbox().to_string_lossy(), "{D}")
                .replace(&*self.dir.to_string_lossy(), "{W}")
                .replace("root-halite", "ROOT")
                .replace("conf/halite", "CONF")
        };
        let mut value = plain(value, &IGNORED, &text);
        if let Some(day) = value.pointer_mut("/changes/lstchg")
            && *day == today()
        {
            *day = json!("TODAY");
        }
        value
    }

    /// Leaves the host's /etc and /run alone; this process has mounts of its own. Without LVM, which the grains would ask
    /// again and again.
    fn apart(&self, systemd: bool) {
        let over = self.dir.join("over");
        let script = format!(
            "mount --make-rprivate /; mkdir {0}; mount -t tmpfs tmpfs {0}; mkdir {0}/upper {0}/work; \
             mount -t overlay overlay -o lowerdir=/etc,upperdir={0}/upper,workdir={0}/work /etc; \
             mkdir -p /etc/systemd/system; mount -t tmpfs tmpfs /etc/systemd/system; \
             ! [ -e /usr/sbin/lvm ] || mount --bind /dev/null /usr/sbin/lvm; {1}",
            over.display(),
            if systemd {
                // As on a host that systemd has booted.
                "mkdir -p /run/systemd; mount -t tmpfs tmpfs /run/systemd; mkdir /run/systemd/system"
            } else {
                ":"
            }
        );
        let status = Command::new("/bin/sh").args(["-ec", &script]).status();
        assert!(status.unwrap().success(), "a mount namespace of its own");
    }

    fn prepare(&self, case: &Json) {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let sandbox = format!("{}/", self.sandbox().display());
        for line in mounts.lines().rev() {
            let place = line.split(' ').nth(1).unwrap_or_default();
            if place.starts_with(&sandbox) {
                let _ = Command::new("umount").args(["-l", place]).status();
            }
        }
        for dir in [self.sandbox(), self.dir.join("srv")] {
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).unwrap();
        }
        for name in case["fakes"].as_array().into_iter().flatten() {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/states/fakes");
            let from = from.join(name.as_str().unwrap());
            let status = Command::new("cp")
                .arg("-rT")
                .arg(from)
                .arg(self.sandbox().join("bin"))
                .status();
            assert!(status.unwrap().success(), "the programs of {name}");
        }
        if let Some(setup) = case.get("setup") {
            let setup = self.filled(setup);
            let status = Command::new("/bin/sh")
                .args(["-ec", setup.as_str().unwrap()])
                .current_dir(self.sandbox())
                .stdout(std::process::Stdio::null())
                .status();
            assert!(status.unwrap().success(), "the setup of {case}");
        }
    }

    fn call(&self, case: &Json, test: bool) -> Json {
        let mut kwargs = map! {"__kwarg__" => true, "test" => test};
        let args = self.filled(case.get("args").unwrap_or(&json!({})));
        for (key, value) in args.as_object().unwrap() {
            kwargs.set(key, serde_json::from_value::<Value>(value.clone()).unwrap());
        }
        if !kwargs.contains("name") {
            kwargs.set("name", "x");
        }
        let args = [case["state"].as_str().unwrap().into(), Value::Map(kwargs)];
        let returned = execution::call(&self.ctx, "state.single", &args).ret;
        let result = match returned {
            Value::Map(Map(mut results)) if results.len() == 1 => results.remove(0).1,
            other => other,
        };
        self.plain(&serde_json::to_value(&result).unwrap())
    }

    fn tree(&self) -> Json {
        let mut found = BTreeMap::new();
        self.walk(&self.sandbox(), &mut found);
        without_fakes(&json!(found))
    }

    fn walk(&self, dir: &Path, found: &mut BTreeMap<String, Json>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let mode = format!("{:o}", meta.permissions().mode());
            let mut shown = vec![json!(mode), json!(meta.uid()), json!(meta.gid())];
            if meta.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                shown.push(self.plain(&json!(target.to_string_lossy())));
            } else if meta.is_file() {
                let mut bytes = self.plain_bytes(std::fs::read(&path).unwrap());
                if path.ends_with("etc/shadow") || path.ends_with("etc/shadow-") {
                    let text = String::from_utf8(bytes).unwrap();
                    bytes = text
                        .replace(&format!(":{}:", today()), ":TODAY:")
                        .into_bytes();
                }
                let digest = Sha256::digest(bytes);
                shown.push(json!(format!("{digest:x}")));
            } else if meta.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                // What git keeps for itself has times in it.
                self.walk(&path, found);
            }
            let name = path.strip_prefix(self.sandbox()).unwrap();
            found.insert(name.to_string_lossy().into_owned(), Json::Array(shown));
        }
    }

    /// How a case differs from what is recorded.
    fn differences(&self, case: &Json) -> Vec<String> {
        self.prepare(case);
        let steps = case.get("steps").cloned();
        let steps = steps.unwrap_or(json!(["test", "real", "real"]));
        let mut wrong = Vec::new();
        let recorded = case["results"].as_array().unwrap();
        for (step, stock) in steps.as_array().unwrap().iter().zip(recorded) {
            let found = self.call(case, step == "test");
            if found != *stock {
                wrong.push(format!("  {step}\n    stock  {stock}\n    halite {found}"));
            }
        }
        let (tree, stock) = (self.tree(), without_fakes(&case["tree"]));
        if tree != stock {
            wrong.push(format!("  files\n    stock  {stock}\n    halite {tree}"));
        }
        wrong
    }
}

/// What `/etc/shadow` says of a password that was changed now: days since 1970.
fn today() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86400
}

/// The files of a sandbox but the programs that were put there.
fn without_fakes(tree: &Json) -> Json {
    let kept = tree.as_object().into_iter().flatten();
    let kept = kept.filter(|(name, _)| *name != "bin" && !name.starts_with("bin/"));
    kept.map(|(name, entry)| (name.clone(), entry.clone()))
        .collect()
}

/// A result without some keys, with the last line of tracebacks only, and with its texts as `text` gives them.
pub(super) fn plain(value: &Json, ignored: &[&str], text: &dyn Fn(String) -> String) -> Json {
    let of_text = |one: &str| match one.split_once(MARK) {
        Some((head, rest)) => {
            let last = rest.lines().rfind(|line| !line.trim().is_empty());
            text(format!("{head}{MARK}\n{}\n", last.unwrap_or_default()))
        }
        None => text(one.to_owned()),
    };
    match value {
        Json::String(one) => of_text(one).into(),
        Json::Array(list) => list.iter().map(|one| plain(one, ignored, text)).collect(),
        Json::Object(map) => {
            let kept = map
                .iter()
                .filter(|(key, _)| !ignored.contains(&key.as_str()));
            kept.map(|(k, v)| (of_text(k), plain(v, ignored, text)))
                .collect()
        }
        other => other.clone(),
    }
}

/// Runs this test again for one file, with mounts of its own and the sandbox's programs first in PATH: some calls change
/// what is mounted.
fn play_apart(file: &Path) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let status = Command::new("unshare")
        .arg("-m")
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "states::state_functions_as_recorded",
            "--nocapture",
        ])
        .env(STAGE, dir.path())
        .env(CALLS, file)
        .env("PATH", format!("{}/D/bin:{path}", dir.path().display()))
        .env("SHELL", "/bin/bash")
        .env("FAKE_SYSTEM", "/etc/systemd/system")
        .status();
    status.unwrap().success()
}

/// Whether [`Stage::apart`] is possible; containers may not allow it.
fn can_overlay() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount --make-rprivate / && mount -t tmpfs tmpfs \"$0\" && mkdir \"$0/u\" \"$0/w\" && \
                  mount -t overlay overlay -o \"lowerdir=/etc,upperdir=$0/u,workdir=$0/w\" /etc";
    let status = Command::new("unshare")
        .args(["-m", "/bin/sh", "-c", script])
        .arg(dir.path())
        .stderr(std::process::Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}

#[test]
fn state_functions_as_recorded() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: stock's results are those of root");
        return;
    }
    if let (Some(dir), Some(file)) = (std::env::var_os(STAGE), std::env::var_os(CALLS)) {
        return play(dir.into(), Path::new(&file));
    }
    if !can_overlay() {
        eprintln!("skipped: this host allows no overlay in a mount namespace");
        return;
    }
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/states");
    let mut files: Vec<PathBuf> = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| {
            let here = !path.ends_with("augeas.json") || Path::new("/usr/bin/augtool").exists();
            if !here {
                eprintln!("skipped: augeas, augtool is not installed");
            }
            here
        })
        .collect();
    files.sort();
    let next = std::sync::Mutex::new(files.into_iter());
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = { next.lock().unwrap().next() } {
                    if !play_apart(&file) {
                        wrong.lock().unwrap().push(file);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "see above: {wrong:?}");
}

/// Compares the calls of one file.
fn play(dir: PathBuf, file: &Path) {
    halite::states::install();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let stage = Stage::new(dir, file);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    stage.apart(name.starts_with("service"));
    std::env::set_current_dir("/").unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    let text = std::fs::read_to_string(file).unwrap();
    for case in serde_json::from_str::<Vec<Json>>(&text).unwrap() {
        let differences = stage.differences(&case);
        compared += 1;
        if differences.is_empty() == case.get("differs").is_some() {
            let args = case.get("args").unwrap_or(&Json::Null);
            wrong.push(format!(
                "{} {args}\n{}",
                case["state"],
                differences.join("\n")
            ));
        }
    }
    eprintln!("{name}: {compared} calls compared, {} differ", wrong.len());
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}
