//! The calls of `tests/modules/calls` on halite's minion: it answers what stock's minion answered when that was recorded
//! (`tests/data/modules_cases.json`). Stock itself is asked by `tests/stock/modules.rs`.

use testing::Minion;
use testing::modules::play::{self, MINION};
use testing::modules::recorded::{FILES, Recorded};
use testing::modules::scenarios;

/// Plays the scenarios of the files that are `meant`.
fn compare(meant: fn(&str) -> bool) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: stock's answers are those of a minion of root");
        return;
    }
    let recorded = Recorded::read();
    let (master, config) = play::master();
    let mut minions = [Minion::halite(&master, "halite", MINION)];
    play::wait(&config, &mut minions);
    let (mut compared, mut wrong) = (0, Vec::new());
    for scenario in scenarios() {
        if !FILES.contains(&scenario.file.as_str()) || !meant(&scenario.file) {
            continue;
        }
        let found = play::play(&config, &minions[0], &scenario);
        let (count, mut differ) = recorded.compare(&scenario, &found);
        compared += count;
        wrong.append(&mut differ);
    }
    eprintln!("{compared} answers compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(compared > 100, "only {compared} answers are recorded");
}

// One half each, beside each other.
#[test]
fn of_files_as_recorded() {
    compare(|file| file == "file");
}

#[test]
fn of_all_others_as_recorded() {
    compare(|file| file != "file");
}
