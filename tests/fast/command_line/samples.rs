//! Every sample of a configuration that comes with halite is accepted by the programs that read it.

use super::{Ran, run};
use std::path::{Path, PathBuf};

/// Names of configuration files, with what a sample leaves to the operator, and who reads them.
const READERS: [(&str, &str, &[&str]); 4] = [
    (
        "master",
        "syndic_master: upper\n",
        &["halite-master", "halite-syndic"],
    ),
    ("minion", "", &["halite-minion", "halite-sysinspect-minion"]),
    (
        "federation-broker",
        "cluster: c\nfederation_servers: ['a:4222']\ncollective_servers: ['b:4222']\n",
        &["halite-federation-broker"],
    ),
    ("runtime", "servers: ['c:1883']\n", &["halite-runtime"]),
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What every program that reads `file` says of `text`.
fn check(file: &str, text: &str) -> Vec<(String, Ran)> {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    for (other, least, _) in READERS {
        std::fs::write(dir.path().join(other), least).unwrap();
    }
    std::fs::write(dir.path().join(file), text).unwrap();
    let readers = READERS.iter().filter(|(name, ..)| *name == file);
    let programs = readers.flat_map(|(_, _, programs)| *programs);
    let ran = |name: &&str| run(name, dir.path(), &["-c", place, "--check-config"]);
    programs
        .map(|name| ((*name).to_owned(), ran(name)))
        .collect()
}

/// Lines about the text and not about this host: its processors, limits and keys, and files of the samples.
fn complaints(ran: &Ran) -> Vec<&str> {
    let lines = ran
        .out
        .lines()
        .filter(|l| l.starts_with("error: ") || l.contains("option"));
    lines.collect()
}

#[test]
fn samples_are_accepted_as_they_are_and_with_every_option_written_out() {
    for (file, least, _) in READERS {
        let path = project().join("packaging/config").join(file);
        let sample = std::fs::read_to_string(&path).unwrap();
        let is_option = |line: &&str| {
            line.starts_with('#') && line[1..].starts_with(|c: char| c.is_ascii_lowercase())
        };
        let options = sample.lines().filter(is_option).count();
        assert!(options > 20, "{file}: {options} options");
        let written: Vec<&str> = sample
            .lines()
            .map(|line| if is_option(&line) { &line[1..] } else { line })
            // What the sample leaves to the operator stands below.
            .filter(|line| {
                !least
                    .lines()
                    .any(|own| line.split(':').next() == own.split(':').next())
            })
            .collect();
        let written = written.join("\n");
        for text in [format!("{sample}\n{least}"), format!("{written}\n{least}")] {
            for (program, ran) in check(file, &text) {
                assert_eq!(ran.status, Some(0), "{program}: {}{}", ran.out, ran.err);
                assert_eq!(complaints(&ran), [""; 0], "{program}");
                assert!(
                    ran.out.ends_with("the configuration is usable\n"),
                    "{program}: {}",
                    ran.out
                );
            }
        }
    }
}

#[test]
fn what_is_wrong_is_told_by_every_program() {
    for (file, least, programs) in READERS {
        let wrong = format!("{least}log_format: xml\n");
        for (program, ran) in check(file, &wrong) {
            assert_eq!(ran.status, Some(1), "{program}: {}", ran.out);
            assert!(
                ran.err.contains("'log_format'") && ran.err.contains("salt or json"),
                "{program}: {}",
                ran.err
            );
        }
        let odd = format!("{least}log_level: loud\n");
        let told = check(file, &odd);
        assert_eq!(told.len(), programs.len());
        for (program, ran) in told {
            assert_eq!(ran.status, Some(0), "{program}: {}{}", ran.out, ran.err);
            let words =
                "quiet, critical, error, warning, info, profile, debug, trace, garbage, all";
            assert!(
                ran.out.contains("'loud'") && ran.out.contains(words),
                "{program}: {}",
                ran.out
            );
        }
        // Masters and minions have defaults for everything, which is not so of the others.
        if !["master", "minion"].contains(&file) {
            for (program, ran) in check(file, "") {
                assert_eq!(ran.status, Some(1), "{program}: {}", ran.out);
                assert!(ran.out.starts_with("error: "), "{program}: {}", ran.out);
            }
        }
    }
}

/// Blocks of the documentation that say whose configuration they are: a fence of `yaml` and the name of the file.
#[test]
fn samples_of_the_documentation_are_accepted() {
    let mut found = 0;
    for page in pages(&project().join("docs")) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (file, least, _) in READERS {
            let fence = format!("```yaml {file}\n");
            for block in text.split(&fence).skip(1) {
                let block = block.split("\n```").next().unwrap();
                found += 1;
                for (program, ran) in check(file, &format!("{least}{block}\n")) {
                    let place = page.display();
                    assert_eq!(
                        ran.status,
                        Some(0),
                        "{place}: {program}: {}{}",
                        ran.out,
                        ran.err
                    );
                    assert_eq!(complaints(&ran), [""; 0], "{place}: {program}");
                }
            }
        }
    }
    assert!(found >= 3, "{found} blocks");
}

fn pages(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => out.extend(pages(&path)),
            Some(md) if md == "md" => out.push(path),
            _ => {}
        }
    }
    out
}
