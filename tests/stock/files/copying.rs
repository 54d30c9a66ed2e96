//! `cp.*` of stock minions, `salt-cp`, `halite-cp`, and the runner `fileserver`.

use crate::files::Fleet;
use serde_json::{Value, json};
use std::path::Path;
use testing::check::same;
use testing::{Checks, Cli, Stock};

const IDS: [&str; 2] = ["m3006", "m3008"];
const LARGE: usize = 50 << 20;

pub fn all(fleet: &Fleet, checks: &mut Checks) {
    let cli = &fleet.master.halite_cli();
    checks.run("cp.list_*", || lists(cli));
    checks.run("cp.get_file of 50 MB", || large(fleet, cli));
    checks.run("cp.get_file compressed", || compressed(fleet, cli));
    checks.run("cp.get_dir, cp.cache_file, cp.hash_file", || {
        fetches(fleet, cli)
    });
    checks.run("cp.push and minionfs", || push(fleet, cli));
    let stock = Stock::find("3008").map(|s| fleet.master.stock_cli(&s));
    for cli in [Some(cli.clone()), stock].into_iter().flatten() {
        checks.run(&format!("salt-cp of {}", cli.name), || copy(fleet, &cli));
    }
    checks.run("runner fileserver", || runner(fleet, cli));
}

fn each(
    cli: &Cli,
    words: &[&str],
    check: impl Fn(&str, &Value) -> Result<(), String>,
) -> Result<(), String> {
    let mut args = vec!["*"];
    args.extend(words);
    args.extend(["-t", "60"]);
    let all = cli.ask(&args)?;
    for id in IDS {
        let found = all.get(id).ok_or(format!("{id} did not return: {all:?}"))?;
        check(id, found).map_err(|e| format!("{id} {words:?}: {e}"))?;
    }
    Ok(())
}

fn has(list: &Value, name: &str) -> Result<(), String> {
    let found = list.as_array().is_some_and(|l| l.iter().any(|v| v == name));
    same(found, true).map_err(|e| format!("{name} in {list}: {e}"))
}

fn lists(cli: &Cli) -> Result<(), String> {
    each(cli, &["cp.list_master"], |_, list| {
        has(list, "a/b/deep.txt")
    })?;
    each(cli, &["cp.list_master", "saltenv=prod"], |_, list| {
        same(list, &json!(["p/prod.txt"]))
    })?;
    each(cli, &["cp.list_master", "prefix=a/b"], |_, list| {
        same(list, &json!(["a/b/deep.txt"]))
    })?;
    each(cli, &["cp.list_master_dirs"], |_, list| {
        has(list, "hollow/inner")
    })?;
    each(cli, &["cp.list_master_symlinks"], |_, map| {
        same(&map["link"], &json!("a/run.sh"))
    })?;
    each(cli, &["cp.list_states"], |_, list| has(list, "web"))?;
    each(cli, &["cp.envs"], |_, list| has(list, "dev"))
}

fn large(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let content: Vec<u8> = (0..LARGE)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    std::fs::write(fleet.top.join("base/large"), &content).map_err(|e| e.to_string())?;
    let sum = halite::crypto::HashType::Sha256.hex(&content);
    for id in IDS {
        let to = fleet.top.join(format!("large-{id}"));
        let to = to.to_string_lossy();
        let all = cli.ask(&[id, "cp.get_file", "salt://large", &to, "-t", "80"])?;
        same(all.get(id), Some(&json!(to)))?;
        let found = std::fs::read(&*to).map_err(|e| e.to_string())?;
        same(halite::crypto::HashType::Sha256.hex(&found), sum.clone())?;
    }
    each(cli, &["cp.hash_file", "salt://large"], |_, hash| {
        same(&hash["hsum"], &json!(sum))
    })
}

fn compressed(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let to = |id: &str| fleet.top.join(format!("binary-{id}"));
    for id in IDS {
        let path = to(id);
        let all = cli.ask(&[
            id,
            "cp.get_file",
            "salt://binary",
            &path.to_string_lossy(),
            "gzip=5",
            "-t",
            "60",
        ])?;
        same(all.get(id), Some(&json!(path.to_string_lossy())))?;
        same(read(&path)? == read(&fleet.top.join("base/binary"))?, true)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn fetches(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    for id in IDS {
        let to = fleet.top.join(format!("dir-{id}"));
        let all = cli.ask(&[
            id,
            "cp.get_dir",
            "salt://a",
            &to.to_string_lossy(),
            "-t",
            "60",
        ])?;
        let list = all.get(id).and_then(Value::as_array).map_or(0, Vec::len);
        same(list, 2).map_err(|e| format!("{e}: {all:?}"))?;
        same(read(&to.join("a/b/deep.txt"))?, b"deep".to_vec())?;
    }
    each(cli, &["cp.cache_file", "salt://a/b/deep.txt"], |_, path| {
        same(
            read(Path::new(path.as_str().unwrap_or_default()))?,
            b"deep".to_vec(),
        )
    })?;
    each(
        cli,
        &["cp.get_file_str", "salt://odd/ümlaut"],
        |_, text| same(text, &json!("ü")),
    )?;
    each(cli, &["cp.cache_file", "salt://none"], |_, path| {
        same(path, &json!(false)).or(same(path, &json!("")))
    })?;
    each(
        cli,
        &["cp.cache_file", "salt://dev.txt?saltenv=dev"],
        |_, path| {
            same(
                read(Path::new(path.as_str().unwrap_or_default()))?,
                b"dev".to_vec(),
            )
        },
    )
}

fn push(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let dir = fleet.top.join("pushed");
    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let content: Vec<u8> = (0..2_500_000u32).map(|n| (n / 7) as u8).collect();
    std::fs::write(dir.join("big"), &content).map_err(|e| e.to_string())?;
    std::fs::write(dir.join("small"), "small").map_err(|e| e.to_string())?;
    let dir_text = dir.to_string_lossy();
    each(cli, &["cp.push", &format!("{dir_text}/big")], |_, done| {
        same(done, &json!(true))
    })?;
    each(cli, &["cp.push_dir", &dir_text], |_, done| {
        same(done, &json!(true))
    })?;
    let below = dir_text.trim_start_matches('/');
    for id in IDS {
        let files = fleet
            .master
            .home
            .cache()
            .join("minions")
            .join(id)
            .join("files");
        same(read(&files.join(below).join("big"))? == content, true)?;
    }
    // Another minion gets it from there.
    let url = format!("salt://m3006/{below}/small");
    each(cli, &["cp.get_file_str", &url], |_, text| {
        same(text, &json!("small"))
    })
}

fn copy(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let source = fleet.top.join("base/a/b/deep.txt");
    let to = fleet
        .top
        .join(format!("copied-{}", cli.name.replace(' ', "-")));
    std::fs::create_dir_all(&to).map_err(|e| e.to_string())?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let ran = cli.run(
        "salt-cp",
        &[
            "m3008",
            &text(&source),
            &text(&to.join("deep")),
            "--out=json",
        ],
    );
    let all = ran.returns()?;
    same(
        all.get("m3008"),
        Some(&json!({text(&to.join("deep")): true})),
    )
    .map_err(|e| format!("{e}\n{}", ran.describe()))?;
    same(read(&to.join("deep"))?, b"deep".to_vec())?;
    for options in [&["-C"][..], &["-C", "-n"]] {
        if !cli.is_halite() && options.contains(&"-n") {
            // Minions take some of the pieces of stock for keyword arguments.
            continue;
        }
        let dest = text(&to.join("tree"));
        let (one, two) = (
            text(&fleet.top.join("base/a")),
            text(&fleet.top.join("base/binary")),
        );
        let mut args = options.to_vec();
        args.extend(["-L", "m3008,none", &one, &two, &dest, "--out=json"]);
        let ran = cli.run("salt-cp", &args);
        let all = ran.returns()?;
        // Minions on one host would append to the same file, so this is for one of them.
        let files = all
            .get("m3008")
            .and_then(Value::as_object)
            .ok_or_else(|| ran.describe())?;
        same((files.len(), files.values().all(|v| v == true)), (4, true))
            .map_err(|e| format!("{e}\n{}", ran.describe()))?;
        same(
            read(&to.join("tree/binary"))? == read(&fleet.top.join("base/binary"))?,
            true,
        )?;
        same(read(&to.join("tree/a/b/deep.txt"))?, b"deep".to_vec())?;
        std::fs::remove_dir_all(&dest).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Both series of tools answer the same about halite's file server.
fn runner(fleet: &Fleet, cli: &Cli) -> Result<(), String> {
    let Some(stock) = Stock::find("3008").map(|s| fleet.master.stock_cli(&s)) else {
        return Ok(());
    };
    for words in [
        &["fileserver.envs"][..],
        &["fileserver.envs", "sources=True"],
        &["fileserver.envs", "backend=roots"],
        &["fileserver.file_list"],
        &["fileserver.file_list", "saltenv=prod"],
        &["fileserver.file_list", "base", "minionfs"],
        &["fileserver.dir_list"],
        &["fileserver.empty_dir_list"],
        &["fileserver.empty_dir_list", "backend=minionfs"],
        &["fileserver.symlink_list", "backend=roots"],
        &["fileserver.clear_cache"],
        &["fileserver.clear_lock"],
        &["fileserver.lock"],
        &["fileserver.update"],
    ] {
        let mut args = words.to_vec();
        args.push("--out=json");
        let (own, other) = (cli.runner(&args), stock.runner(&args));
        same(own.json()?, other.json()?).map_err(|e| format!("{words:?}: {e}"))?;
    }
    each(cli, &["cp.list_master"], |_, list| has(list, "top.sls"))?;
    let cleared = cli
        .runner(&["fileserver.clear_file_list_cache", "--out=json"])
        .json()?;
    has(&cleared["roots"], "base")?;
    let again = cli
        .runner(&["fileserver.clear_file_list_cache", "--out=json"])
        .json()?;
    same(again, json!({}))
}
