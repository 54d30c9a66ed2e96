use super::*;
use halite_crypto::{IdentityKey, KeyType};
use std::fs;
use std::path::Path;

/// Copies a sample, with its placeholders replaced.
fn copy(from: &Path, to: &Path, dir: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &path, dir);
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        fs::write(path, text.replace("@DIR@", dir)).unwrap();
    }
}

/// Checks a sample against its report; returns the status.
fn sample(name: &str) -> i32 {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/migrate");
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("salt");
    let shown = dir.to_string_lossy().into_owned();
    copy(&data.join(name), &dir, &shown);
    let report = check::check(&dir, &[Role::Master, Role::Minion]);
    let text = show::table(&report, false, false).replace(&shown, "@DIR@");
    let path = data.join(name).join("report.txt");
    if std::env::var_os("HALITE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        text,
        fs::read_to_string(&path).unwrap_or_default(),
        "{name}"
    );
    assert!(
        !text.contains("secret/salt") && !text.contains("token: "),
        "no values"
    );
    report.status()
}

#[test]
fn samples_are_judged_as_written_down() {
    assert_eq!(sample("clean"), 0);
    assert_eq!(sample("typical"), 1);
    assert_eq!(sample("broken"), 2);
}

#[test]
fn keys_and_caches_are_looked_at() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("salt");
    let pki = work.path().join("etc/salt/pki/master");
    for part in ["minions", "minions_pre"] {
        fs::create_dir_all(pki.join(part)).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join("master"),
        format!("root_dir: {}\nsalt_series: 3008\n", work.path().display()),
    )
    .unwrap();
    fs::write(pki.join("minions/good"), "no key").unwrap();
    fs::write(pki.join("minions_pre/bad name\n"), "x").unwrap();
    fs::write(
        pki.join("master.pem"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let data = work.path().join("var/cache/salt/master/minions/good");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("data.p"), [0x80]).unwrap();
    let report = check::check(&dir, &[Role::Master]);
    let of = |what: &str| {
        let found = report.findings.iter().filter(|f| f.what == what);
        found.map(|f| f.verdict.word()).collect::<Vec<_>>()
    };
    assert_eq!(of("master key"), ["needs a hand"]);
    assert_eq!(of("minion key"), ["needs a hand"]);
    assert_eq!(of("minion keys"), ["different", "supported"]);
    assert_eq!(of("minion data"), ["different"]);
    let nowhere = check::check(&dir.join("x"), &[Role::Master]);
    assert_eq!((nowhere.status(), nowhere.findings.len()), (2, 0));
    let minion = check::check(&dir, &[Role::Minion]);
    assert_eq!(minion.status(), 2, "there is no such file");
}

/// Directories of a stock master and of halite below one root, with a key and a minion.
struct Two {
    root: tempfile::TempDir,
    salt: PathBuf,
    halite: PathBuf,
}

impl Two {
    fn new() -> Two {
        let root = tempfile::tempdir().unwrap();
        let salt = root.path().join("etc/salt");
        let pki = salt.join("pki/master");
        fs::create_dir_all(pki.join("minions")).unwrap();
        let text = format!("root_dir: {}\npidfile: /run/x.pid\n", root.path().display());
        fs::write(salt.join("master"), text).unwrap();
        fs::write(pki.join("master.pem"), "of the stock master").unwrap();
        fs::write(pki.join("minions/a"), "key of a").unwrap();
        let halite = root.path().join("etc/halite");
        Two { root, salt, halite }
    }

    fn import(&self) -> Result<transfer_report::TransferReport, String> {
        transfer::import(&self.salt, &self.halite, LIVE)
    }

    fn export(&self) -> Result<transfer_report::TransferReport, String> {
        transfer::export(&self.halite, &self.salt, LIVE)
    }
}

const LIVE: TransferOptions = TransferOptions {
    dry_run: false,
    delete: false,
    out: OutputFormat::Table,
};

#[test]
fn a_master_moves_and_what_differs_stays() {
    let two = Two::new();
    assert!(two.export().is_err(), "there is no halite yet");
    let done = two.import().unwrap();
    assert_eq!(done.status(), 0, "{}", done.table());
    assert!(done.table().contains("1 new accepted"), "{}", done.table());
    let copied = fs::read_to_string(two.halite.join("master")).unwrap();
    assert!(copied.contains("\n#pidfile: /run/x.pid\n"), "{copied}");
    let pki = two.halite.join("pki/master");
    assert_eq!(
        fs::read_to_string(pki.join("minions/a")).unwrap(),
        "key of a"
    );

    // Edited on this side, and another key for the same id.
    fs::write(two.halite.join("master"), format!("{copied}timeout: 9\n")).unwrap();
    fs::write(pki.join("minions/a"), "another").unwrap();
    let done = two.import().unwrap();
    assert_eq!(done.status(), 1);
    let said = done.table();
    assert!(
        said.contains("left as it is") && said.contains("another key exists for a"),
        "{said}"
    );
    assert!(
        fs::read_to_string(two.halite.join("master"))
            .unwrap()
            .contains("timeout: 9")
    );

    fs::write(pki.join("minions/b"), "key of b").unwrap();
    let done = two.export().unwrap();
    assert!(done.table().contains("1 new accepted"), "{}", done.table());
    let back = two.salt.join("pki/master/minions/b");
    assert_eq!(fs::read_to_string(back).unwrap(), "key of b");
}

#[test]
fn what_would_harm_is_refused() {
    let two = Two::new();
    let why = |done: Result<transfer_report::TransferReport, String>| {
        done.map(|d| d.table()).unwrap_err()
    };
    let same = transfer::import(&two.salt, &two.salt, LIVE);
    assert!(why(same).contains("nothing has to be imported"));
    two.import().unwrap();
    let sockets = two.root.path().join("var/run/halite/master");
    fs::create_dir_all(&sockets).unwrap();
    let lock = sockets.join(".halite-master.lock");
    let lock = halite_sys::daemon::InstanceLock::take(&lock).unwrap();
    assert!(why(two.import()).contains("stop it first"));
    assert!(why(two.export()).contains("stop it first"));
    drop(lock);
    let own = two.halite.join("pki/master/master.pem");
    fs::remove_file(&own).unwrap();
    fs::write(&own, "another master").unwrap();
    fs::remove_file(two.halite.join("master")).unwrap();
    assert!(why(two.import()).contains("another master's key"));
    assert!(
        !two.halite.join("master").exists(),
        "nothing is copied then"
    );
    fs::write(two.salt.join("master"), "a: [").unwrap();
    assert!(why(two.import()).contains("etc/salt/master: line "));
}

#[test]
fn keys_of_halite_alone_are_told_on_the_way_back() {
    let two = Two::new();
    two.import().unwrap();
    let key = IdentityKey::generate(KeyType::Ed25519, 0).unwrap();
    let pki = two.halite.join("pki/master");
    fs::write(pki.join("minions/new"), key.public().to_pem()).unwrap();
    let said = two.export().unwrap().table();
    assert!(said.contains("the Ed25519 keys of new: remove"), "{said}");
    fs::remove_file(pki.join("master.pem")).unwrap();
    fs::write(pki.join("master.pem"), key.to_pem().as_bytes()).unwrap();
    let why = two.export().map(|done| done.table()).unwrap_err();
    assert!(why.contains("which stock Salt cannot use"), "{why}");
}

#[test]
fn links_and_pipes_of_the_master_s_account_are_not_read() {
    use std::os::unix::fs::{lchown, symlink};
    let two = Two::new();
    let at = |name: &str| two.root.path().join(name);
    fs::write(at("secret"), "root's").unwrap();
    let pki = two.salt.join("pki/master");
    let cache = at("var/cache/salt/master");
    fs::create_dir_all(cache.join("grains")).unwrap();
    fs::create_dir_all(cache.join("jobs/ab/cd")).unwrap();
    for pipe in ["grains/a.p", "jobs/ab/cd/jid"] {
        nix::unistd::mkfifo(&cache.join(pipe), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let done = two.import().unwrap();
    assert!(done.table().contains("1 not readable"), "{}", done.table());

    symlink(at("secret"), pki.join("master.pub")).unwrap();
    assert!(two.import().is_err());
    assert!(!two.halite.join("pki/master/master.pub").exists());
    fs::remove_file(pki.join("master.pub")).unwrap();
    nix::unistd::mkfifo(&pki.join("master.pub"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(two.import().is_err());
    fs::remove_file(pki.join("master.pub")).unwrap();

    // What Salt 3008 leaves when it renames the key.
    fs::rename(pki.join("master.pem"), pki.join("hub.pem")).unwrap();
    symlink(pki.join("hub.pem"), pki.join("master.pem")).unwrap();
    two.import().unwrap();

    // The operator may use links, the account may not.
    fs::rename(pki.join("minions"), at("elsewhere")).unwrap();
    symlink(at("elsewhere"), pki.join("minions")).unwrap();
    two.import().unwrap();
    if nix::unistd::geteuid().is_root() {
        lchown(pki.join("minions"), Some(65534), None).unwrap();
        let why = two.import().err().unwrap();
        assert!(why.ends_with("is a link that root does not own, and is not followed"));
        let why = two.export().err().unwrap();
        assert!(why.ends_with("is a link that root does not own, and is not followed"));
    }
}
