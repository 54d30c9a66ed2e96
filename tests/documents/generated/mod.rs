//! Files that are made from the program itself: manual pages from the commands' options, tables
//! and sample files from the configuration. This test compares them with what the repository
//! holds; `HALITE_BLESS=1 cargo test --test documents` writes them anew.

mod completions;

use clap_mangen::Man;
use halite::config::{
    Role, load_federation_broker, load_master, load_minion, load_runtime, options_markdown,
    sample_config,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

const HINT: &str = "HALITE_BLESS=1 cargo test --test documents";

const ROLES: [Role; 4] = [
    Role::Master,
    Role::Minion,
    Role::FederationBroker,
    Role::Runtime,
];

mod options_manual;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every generated file with its content, by its path in the repository.
fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = commands().iter().flat_map(completions::files).collect();
    files.extend(commands().into_iter().map(|command| {
        (
            format!("man/{}.1", command.get_name()),
            manual_page(command),
        )
    }));
    for role in ROLES {
        let name = role.name();
        files.push((format!("docs/configuration-{name}.md"), options_page(role)));
        files.push((format!("packaging/config/{name}"), sample_config(role)));
        files.push((format!("man/halite-{name}.5"), options_manual::page(role)));
    }
    files.push(("docs/modules.md".to_owned(), modules_page()));
    files.push(("docs/state-functions.md".to_owned(), states_page()));
    files
}

/// Every function of stock Salt's modules and every one of ours, with what is known about them.
fn modules_page() -> String {
    halite::states::install();
    let stock = testing::modules::stock();
    let mut scenarios = testing::modules::scenarios();
    scenarios.extend(testing::modules::rpm_scenarios("dnf"));
    scenarios.extend(testing::modules::rpm_scenarios("zypper"));
    let (absent, arguments) = (
        testing::modules::reasons("absent.yaml"),
        testing::modules::reasons("arguments.yaml"),
    );
    let own: BTreeMap<String, _> = halite::modules::execution::functions()
        .into_iter()
        .collect();
    let grains = testing::modules::reasons("grains.yaml").into_iter();
    let grains: Vec<String> = grains
        .map(|(name, why)| format!("| `{name}` | {why} |\n"))
        .collect();
    let mut rows = Vec::new();
    let (mut same, mut different, mut missing) = (0, 0, 0);
    for name in stock.keys().chain(own.keys()).collect::<BTreeSet<_>>() {
        let calls = scenarios.iter().flat_map(|s| &s.calls);
        let calls: Vec<_> = calls.filter(|c| c.fun == *name).collect();
        let reasons = calls.iter().filter_map(|c| c.differs.as_deref());
        let mut reasons: Vec<&str> = reasons
            .chain(arguments.get(name).map(String::as_str))
            .collect();
        reasons.dedup();
        let (state, why) = match (stock.contains_key(name), own.contains_key(name)) {
            (true, false) => {
                missing += 1;
                ("not there", why_absent(name, &absent).to_owned())
            }
            (false, _) => ("ours", String::new()),
            (true, true) if reasons.is_empty() => {
                same += 1;
                let compared = !calls.is_empty();
                (
                    if compared { "same" } else { "not compared" },
                    String::new(),
                )
            }
            (true, true) => {
                different += 1;
                ("different", reasons.join("; "))
            }
        };
        let count = match calls.len() {
            0 => String::new(),
            n => n.to_string(),
        };
        rows.push(format!(
            "| `{name}` | {state} | {count} | {} |\n",
            why.replace('|', "\\|")
        ));
    }
    format!(
        "<!-- Made from the tables of functions and tests/modules by `{HINT}`. -->\n\n\
         # Execution functions\n\n\
         The functions of stock Salt 3008.3 in the modules that halite's minion has: {same} are there, {different} more differ \
         in what is said here, {missing} are not there. Compared: so many calls return the same on a stock minion and on \
         halite's, on one host (`tests/stock/modules.rs`). Names and defaults of arguments are compared for all \
         (`tests/documents/arguments.rs`).\n\n\
         | function | state | compared | difference and reason |\n|---|---|---|---|\n{}\n\
         # Grains\n\n\
         All core grains of stock 3008.3 with the same values on the same host, except:\n\n\
         | grain | reason |\n|---|---|\n{}",
        rows.concat(),
        grains.concat()
    )
}

/// Every state function, with the number of calls compared with stock's.
fn states_page() -> String {
    let mut compared: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("tests/data/states")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        for case in cases {
            let name = case["state"].as_str().unwrap_or_default().to_owned();
            let (count, reasons) = compared.entry(name).or_default();
            *count += 1;
            reasons.extend(case["differs"].as_str().map(str::to_owned));
        }
    }
    let mut rows = Vec::new();
    let functions = halite::states::state_functions();
    for (name, function) in &functions {
        let mut args: Vec<&str> = function.args.iter().map(|arg| arg.name).collect();
        if function.keywords {
            args.push("...");
        }
        let (count, reasons) = compared.get(name).cloned().unwrap_or_default();
        let count = match count {
            0 => String::new(),
            n => n.to_string(),
        };
        let reasons: Vec<String> = reasons.into_iter().collect();
        rows.push(format!(
            "| `{name}` | {} | {} | {count} | {} |\n",
            function.doc.replace('|', "\\|"),
            args.join(", "),
            reasons.join("; ").replace('|', "\\|")
        ));
    }
    format!(
        "<!-- Made from the tables of state functions and tests/data/states by `{HINT}`. -->\n\n\
         # State functions\n\n\
         The {} state functions of halite's minion, with their arguments beside `name` and what every state takes (see \
         [states](states.md)). Compared: for so many calls, in test mode, for real and again, result, changes, comment and the \
         files afterwards are those of stock Salt 3008.3, or 3007.15 where 3008 lacks the module (`tests/fast/states.rs`), but for what \
         the last column says. Many of these calls meet recorded dialogues of the programs (`tests/data/states/fakes`).\n\n\
         | function | what it does | arguments | compared | difference and reason |\n|---|---|---|---|---|\n{}",
        functions.len(),
        rows.concat(),
    )
}

/// The reason for a function or for all whose names begin alike.
fn why_absent<'a>(name: &str, reasons: &'a BTreeMap<String, String>) -> &'a str {
    let fits = |key: &str| match key.strip_suffix('*') {
        Some(head) => name.starts_with(head),
        None => key == name,
    };
    reasons
        .iter()
        .find(|(key, _)| fits(key))
        .map_or("", |(_, why)| why)
}

/// The commands without what depends on this machine.
fn commands() -> Vec<clap::Command> {
    halite::cli::commands().into_iter().map(plain).collect()
}

fn plain(command: clap::Command) -> clap::Command {
    let reads_config = command.get_arguments().any(|a| a.get_id() == "config_dir");
    if reads_config {
        return command.mut_arg("config_dir", |a| a.default_value("/etc/halite"));
    }
    command
}

fn options_page(role: Role) -> String {
    let note = "<!-- Made from the table in src/config by `HALITE_BLESS=1 cargo test --test documents`. -->\n\n";
    note.to_owned() + &options_markdown(role)
}

/// A page in the customary order; what stands below the options in `--help` becomes sections.
fn manual_page(mut command: clap::Command) -> String {
    command.build();
    let name = command.get_name().to_owned();
    let after = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.override_usage(usage));
    let mut page = options_manual::title(&name, 1).into_bytes();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    // Breaks beside empty lines, of which formatters complain.
    let mut page = String::from_utf8(page)
        .unwrap()
        .replace("\n.br\n\n.br\n", "\n.sp\n");
    for paragraph in after.split("\n\n") {
        section(&mut page, paragraph);
    }
    options_manual::files(&mut page, &name);
    see_also(&mut page, &name);
    page
}

/// A paragraph as a section: its head is what stands before the first colon, lines that are
/// indented are shown as they stand.
fn section(page: &mut String, paragraph: &str) {
    let Some(first) = paragraph.lines().next() else {
        return;
    };
    let is_head =
        |head: &&str| head.len() < 20 && head.chars().all(|c| c.is_alphabetic() || c == ' ');
    let (head, text) = match first.split_once(':').filter(|(head, _)| is_head(head)) {
        Some((head, text)) => (head.to_uppercase(), text.trim()),
        None if first.starts_with("Exit status") => ("EXIT STATUS".into(), first),
        None => ("NOTES".into(), first),
    };
    let _ = writeln!(page, ".SH \"{head}\"");
    if !text.is_empty() {
        let _ = writeln!(page, "{}", escaped(text));
    }
    let mut literal = false;
    for line in paragraph.lines().skip(1) {
        if line.starts_with(' ') != literal {
            page.push_str(if literal { ".fi\n" } else { ".nf\n" });
            literal = !literal;
        }
        let _ = writeln!(page, "{}", escaped(line));
    }
    if literal {
        page.push_str(".fi\n");
    }
}

fn escaped(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

fn see_also(page: &mut String, name: &str) {
    let all = commands();
    let names = all
        .iter()
        .map(clap::Command::get_name)
        .filter(|other| *other != name);
    let files = options_manual::pages_of(name);
    let files = files
        .iter()
        .map(|role| format!(".BR halite\\-{} (5)", escaped(role.name())));
    let names = names.map(|n| format!(".BR {} (1)", escaped(n)));
    let others: Vec<String> = files.chain(names).collect();
    let _ = writeln!(page, ".SH \"SEE ALSO\"\n{}", others.join(" ,\n"));
}

#[test]
fn generated_files_are_current() {
    let bless = std::env::var_os("HALITE_BLESS").is_some_and(|v| !v.is_empty());
    let mut stale = Vec::new();
    for (name, content) in files() {
        let path = root().join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == content) {
            continue;
        }
        if bless {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
        } else {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "not as the program would write them: {}; run `{HINT}`",
        stale.join(", ")
    );
}

#[test]
fn every_command_has_a_page() {
    let known: Vec<String> = commands().iter().map(|c| c.get_name().to_owned()).collect();
    for entry in std::fs::read_dir(root().join("src/bin")).unwrap() {
        let path = entry.unwrap().path();
        let written = std::fs::read_to_string(&path)
            .unwrap()
            .contains("halite::cli");
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            !written || known.contains(&name),
            "add {name} to halite::cli::commands(), then run `{HINT}`"
        );
    }
}

#[test]
fn sample_files_load_without_a_warning() {
    // That the files of the repository are the same is tested above.
    let dir = tempfile::tempdir().unwrap();
    for role in ROLES {
        std::fs::write(dir.path().join(role.name()), sample_config(role)).unwrap();
    }
    assert_eq!(load_master(dir.path()).unwrap().warnings, [""; 0]);
    assert_eq!(load_minion(dir.path()).unwrap().warnings, [""; 0]);
    let broker = load_federation_broker(dir.path()).unwrap();
    assert_eq!(broker.warnings, [""; 0]);
    assert_eq!(load_runtime(dir.path()).unwrap().warnings, [""; 0]);
}
