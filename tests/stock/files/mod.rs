//! The file server beside stock's: the same questions to both masters, and stock minions that fetch
//! files and apply states from halite. Needs stock Salt (see `tests/testing`).

mod asker;
mod copying;
mod questions;
mod states;
mod tree;

use asker::Asking;
use serde_json::Value;
use testing::{Checks, Master, Minion, Stock, short_dir, wait_until};

/// Asks a stock and a halite master with the same configuration the same questions.
fn same_answers(series: &str, options: &str) {
    let (gitfs, odd) = (options.contains("git"), options.is_empty());
    let Some(stock) = Stock::find(series) else {
        return;
    };
    let dir = short_dir();
    tree::build(dir.path());
    let options = format!(
        "auto_accept: true\nsalt_series: '{series}'\n{}\n{options}",
        tree::roots(dir.path())
    );
    let mut checks = Checks::default();
    let mut answers = Vec::new();
    for master in [Master::stock(&stock, &options), Master::halite(&options)] {
        let mut asking = Asking::sign_in(&master, "asker");
        if gitfs {
            wait_until("the repository is fetched", || {
                let envs = asking.ask(halite::map! {"cmd" => "_file_envs"});
                envs.str_list().contains(&"dev".to_owned())
            });
        }
        let all = questions::all(gitfs, odd).into_iter();
        answers.push(
            all.map(|(name, load)| (name, asking.ask(load)))
                .collect::<Vec<_>>(),
        );
    }
    let halite = answers.pop().expect("two masters");
    let stock = answers.pop().expect("two masters");
    for ((name, expected), (_, found)) in stock.into_iter().zip(halite) {
        let found = questions::comparable(found, gitfs);
        let expected = questions::comparable(expected, gitfs);
        checks.run(&name, || testing::check::same(found, expected));
    }
    checks.finish();
}

#[test]
fn answers_are_those_of_3006() {
    same_answers("3006", "");
}

#[test]
fn answers_are_those_of_3008() {
    same_answers("3008", "");
}

#[test]
fn answers_without_links_are_those_of_3008() {
    same_answers(
        "3008",
        "fileserver_followsymlinks: false\nfile_buffer_size: 1000",
    );
    same_answers("3008", "fileserver_ignoresymlinks: true\nhash_type: md5");
}

#[test]
fn answers_from_repositories_are_those_of_3008() {
    let dir = short_dir();
    let url = tree::repository(dir.path());
    let options = format!(
        "fileserver_backend: [git, roots]\ngitfs_provider: gitcli\ngitfs_base: main\ngitfs_remotes:\n\
         - {url}:\n  - mountpoint: salt://mnt\n  - name: one\n"
    );
    same_answers("3008", &options);
}

/// A halite master with files, and stock minions that answer.
struct Fleet {
    minions: Vec<Minion>,
    master: Master,
    _dir: tempfile::TempDir,
    top: std::path::PathBuf,
}

impl Fleet {
    fn start(extra: &str) -> Option<Fleet> {
        let stocks = [Stock::find("3006")?, Stock::find("3008")?];
        let dir = short_dir();
        tree::build(dir.path());
        states::build(&dir.path().join("base"));
        let options = format!(
            "auto_accept: true\nfileserver_backend: [roots, minion]\nfile_recv: true\n\
             fileserver_list_cache_time: 1\nsalt_cp_chunk_size: 1000000\n{}\n{extra}",
            tree::roots(dir.path())
        );
        let master = Master::halite(&options);
        let minion = |stock: &Stock| {
            let id = format!("m{}", stock.series);
            Minion::stock(stock, &master, &id, "")
        };
        let minions: Vec<Minion> = stocks.iter().map(minion).collect();
        let mut fleet = Fleet {
            minions,
            master,
            top: dir.path().to_owned(),
            _dir: dir,
        };
        let cli = fleet.master.halite_cli();
        wait_until("both minions answer", || {
            fleet.minions.iter_mut().for_each(Minion::must_live);
            let all = cli.ask(&["*", "test.ping", "-t", "3"]).unwrap_or_default();
            all.len() == 2 && all.values().all(|v| *v == Value::Bool(true))
        });
        Some(fleet)
    }
}

#[test]
fn stock_minions_fetch_and_send_files() {
    let Some(fleet) = Fleet::start("") else {
        return;
    };
    let mut checks = Checks::default();
    copying::all(&fleet, &mut checks);
    checks.finish();
}

#[test]
fn stock_minions_apply_states() {
    let Some(fleet) = Fleet::start("") else {
        return;
    };
    let mut checks = Checks::default();
    states::all(&fleet, &mut checks);
    checks.finish();
}
