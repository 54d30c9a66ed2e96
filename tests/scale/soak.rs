//! A short form of `scripts/soak`: every answer is complete, no descriptor is left over, memory stays below a
//! generous bound. And the verdict on drift itself, on series that it must let pass and such as it must not.

use std::path::Path;
use std::process::Command;

/// The top of the source tree.
const TOP: &str = env!("CARGO_MANIFEST_DIR");

fn succeeds(command: &mut Command) -> String {
    let ran = command
        .current_dir(TOP)
        .output()
        .expect("it can be started");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(ran.status.success(), "{command:?}: {said}");
    said
}

#[test]
fn drift_is_told_from_noise() {
    let said = succeeds(Command::new("python3").current_dir(TOP).args([
        "-m",
        "unittest",
        "discover",
        "--start-directory",
        "benches/rig",
        "--top-level-directory",
        "benches",
    ]));
    assert!(said.contains("OK"), "{said}");
}

#[test]
fn a_short_soak_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("soak.csv");
    let programs = Path::new(env!("CARGO_BIN_EXE_halite-master"))
        .parent()
        .expect("programs lie in a directory");
    let said = succeeds(
        Command::new("scripts/soak")
            .args(["--minutes", "0.15", "--minions", "50", "--every", "1"])
            .arg("--programs")
            .arg(programs)
            .arg("--csv")
            .arg(&csv),
    );
    assert!(said.contains("nothing is missing"), "{said}");
    let samples = std::fs::read_to_string(csv).unwrap();
    for role in ["MainProcess", "EventPublisher", "ReqServer MWorker-4"] {
        assert!(samples.contains(&format!(",{role},")), "{role}: {samples}");
    }
}
