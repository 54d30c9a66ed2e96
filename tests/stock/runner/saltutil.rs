//! `saltutil.sync_*` beside stock's: the same files, the same commands one after another, and each time the
//! same answers and the same files in `extension_modules`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use testing::{Checks, Master, Stock, check::same};

/// Kinds as the functions name them, and their directories.
#[rustfmt::skip]
const KINDS: [(&str, &str); 24] = [
    ("cache", "cache"), ("clouds", "clouds"), ("eauth_tokens", "tokens"), ("engines", "engines"),
    ("executors", "executors"), ("fileserver", "fileserver"), ("grains", "grains"), ("modules", "modules"),
    ("output", "output"), ("pillar", "pillar"), ("proxymodules", "proxy"), ("queues", "queues"),
    ("renderers", "renderers"), ("returners", "returners"), ("roster", "roster"), ("runners", "runners"),
    ("sdb", "sdb"), ("serializers", "serializers"), ("states", "states"), ("thorium", "thorium"),
    ("tops", "tops"), ("utils", "utils"), ("wheel", "wheel"), ("wrapper", "wrapper"),
];

/// Changes of the file server's files, each followed by commands.
type Step<'a> = (&'a [(&'a str, Option<&'a str>)], &'a [&'a [&'a str]]);

#[rustfmt::skip]
const STEPS: &[Step] = &[
    (
        &[
            ("base/_modules/one.py", Some("X = 1\n")), ("base/_modules/sub/two.pyx", Some("Y = 1\n")),
            ("base/_modules/three.so", Some("\0")), ("base/_modules/four.zip", Some("")),
            ("base/_modules/read.me", Some("no module")), ("base/_modules/five.pyc", Some("no module")),
            ("base/_modules/.hidden.py", Some("X = 1\n")), ("base/_modules/.dir/x.py", Some("X = 1\n")),
            ("base/_modules/a.b.py", Some("X = 1\n")),
            ("base/_states/st.py", Some("X = 1\n")), ("dev/_modules/one.py", Some("X = 'dev'\n")),
            ("dev/_modules/dev.py", Some("X = 1\n")), ("dev/_grains/g.py", Some("def g():\n    return {}\n")),
        ],
        &[
            &["saltutil.sync_all"], &["saltutil.sync_all"], &["saltutil.sync_modules", "saltenv=dev"],
            &["saltutil.sync_modules", "base,dev"], &["saltutil.sync_modules", "[dev, base]"],
            &["saltutil.sync_all", "dev"], &["saltutil.sync_grains", "none"], &["saltutil.sync_all"],
        ],
    ),
    (
        &[
            ("base/_modules/one.py", Some("X = 2\n")), ("base/_modules/sub/two.pyx", None),
            ("base/_states/st.py", None),
        ],
        &[
            &["saltutil.sync_modules", "extmod_whitelist=one,three"],
            &["saltutil.sync_modules", "extmod_blacklist=one"], &["saltutil.sync_modules"],
            &["saltutil.sync_all", "extmod_whitelist={'modules': ['four'], 'states': []}"],
            &["saltutil.sync_all", "base", "None", "{'modules': ['four']}"],
            &["saltutil.sync_all", "extmod_whitelist=one"], &["saltutil.sync_modules", "extmod_whitelist=[states]"],
            &["saltutil.sync_modules", "extmod_whitelist=[modules]"], &["saltutil.sync_modules", "extmod_blacklist={modules: null}"],
            &["saltutil.sync_modules", "extmod_blacklist={modules: xoney}"], &["saltutil.sync_modules", "5"],
            &["saltutil.sync_modules", "extmod_whitelist=''"], &["saltutil.sync_all"],
        ],
    ),
];

/// Paths below a directory with mode and content.
fn tree(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            let path = entry.path();
            let mode = entry.metadata().unwrap().permissions().mode();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            // What Python compiled.
            if name.contains("__pycache__") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
                found.insert(name, (mode, Vec::new()));
            } else {
                found.insert(name, (mode, std::fs::read(path).unwrap()));
            }
        }
    }
    found
}

fn beside(series: &str, options: &str) {
    let Some(stock) = Stock::find(series) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().display();
    let config = format!(
        "salt_series: '{series}'\nfile_roots: {{base: ['{top}/base'], dev: ['{top}/dev']}}\n\
         fileserver_list_cache_time: 0\n{options}\n"
    );
    let masters = [Master::halite(&config), Master::halite(&config)];
    let tools = [masters[0].halite_cli(), masters[1].stock_cli(&stock)];
    for master in &masters {
        let old = master.home.cache().join("extmods/modules/old/sub");
        std::fs::create_dir_all(&old).unwrap();
        std::fs::write(old.join("x.py"), "").unwrap();
    }
    let mut checks = Checks::default();
    let mut compare = |args: &[&str]| {
        let mut all = vec!["--out", "json"];
        all.extend(args);
        let [own, theirs] = tools.each_ref().map(|cli| cli.runner(&all));
        let [found, wanted] = masters
            .each_ref()
            .map(|m| tree(&m.home.cache().join("extmods")));
        let name = args.join(" ");
        checks.run(&name, || {
            same(own.json()?, theirs.json()?)?;
            same(own.status, theirs.status)?;
            same(found, wanted)
        });
    };
    for (files, commands) in STEPS {
        for (name, text) in *files {
            let path = dir.path().join(name);
            match text {
                Some(text) => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, text).unwrap();
                }
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        for args in *commands {
            compare(args);
        }
    }
    for (kind, place) in KINDS {
        let path = dir.path().join(format!("dev/_{place}"));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("k.zip"), kind).unwrap();
    }
    compare(&["saltutil.sync_all", "dev"]);
    checks.finish();
}

#[test]
fn modules_are_copied_as_by_3006() {
    beside("3006", "");
}

#[test]
fn modules_are_copied_as_by_3008() {
    beside("3008", "");
}

#[test]
fn options_are_heeded_as_by_3008() {
    beside(
        "3008",
        "clean_dynamic_modules: false\nextmod_whitelist: {modules: [one, sub.two]}\nextmod_blacklist: {states: [st]}",
    );
}

/// Every function by itself.
#[test]
fn each_kind_is_copied_as_by_3008() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let config = format!("file_roots: {{base: ['{}']}}\n", dir.path().display());
    let master = Master::halite(&config);
    for (kind, place) in KINDS {
        let path = dir.path().join(format!("_{place}"));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("k.zip"), kind).unwrap();
    }
    let (own, stock) = (master.halite_cli(), master.stock_cli(&stock));
    let mut checks = Checks::default();
    for (kind, place) in KINDS {
        let function = format!("saltutil.sync_{kind}");
        let args = ["--out", "json", &function];
        checks.run(kind, || {
            let found = own.runner(&args).json()?;
            same(&found, &serde_json::json!([format!("{place}.k")]))?;
            // Stock finds all in place.
            same(stock.runner(&args).json()?, serde_json::json!([]))
        });
    }
    checks.finish();
}
