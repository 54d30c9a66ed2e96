//! States and pillar: what each SLS file and `.jinja` or `.j2` template needs, checked without a minion.

use super::finding::{Finding, Report, Verdict};
use halite_client::runner;
use halite_config::{MasterConfig, Roots};
use halite_modules::execution;
use halite_render::functions::exists;
use halite_render::pipeline::Pipeline;
use halite_render::usage::{self, SlsUsage};
use halite_store::files::backend_names;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Most levels of directories that are searched; symlinks may form loops.
const DEEPEST: usize = 32;
/// Most files that are checked below one root.
const MOST_FILES: usize = 100_000;
/// Largest file that is checked, in bytes.
const LARGEST: u64 = 4 << 20;

/// The kind of tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// `file_roots`: rendered by minions.
    States,
    /// `pillar_roots`: rendered by the master.
    Pillar,
}

/// Checks the roots of a configuration.
pub(super) fn check(config: &MasterConfig, report: &mut Report) {
    let pipeline = Pipeline {
        default: config.renderer.clone(),
        blacklist: config.renderer_blacklist.clone(),
        whitelist: config.renderer_whitelist.clone(),
    };
    let functions = execution::functions().into_iter().map(|(name, _)| name);
    let states = halite_states::state_functions()
        .into_iter()
        .map(|(name, _)| name);
    let eyes = TreeChecker {
        pipeline,
        functions: functions.collect(),
        states: states.collect(),
    };
    for (tree, roots) in [
        (Tree::States, &config.file_roots),
        (Tree::Pillar, &config.pillar_roots),
    ] {
        for root in dirs(roots) {
            eyes.root(tree, &root, report);
        }
    }
    if backend_names(config).contains(&"gitfs") {
        let note = "states in the repositories of gitfs_remotes are not checked".to_owned();
        let file = &config.conf_file;
        let found = Finding::about(Verdict::Supported, file, "gitfs", note);
        report.findings.push(found);
    }
    own_modules(&config.extension_modules, "", report);
}

/// Existing directories of all environments, without duplicates.
fn dirs(roots: &Roots) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for dir in roots.0.iter().flat_map(|(_, dirs)| dirs) {
        let dir = PathBuf::from(dir);
        if dir.is_dir() && !out.contains(&dir) {
            out.push(dir);
        }
    }
    out
}

struct TreeChecker {
    pipeline: Pipeline,
    /// Functions that halite's minion supports.
    functions: HashSet<String>,
    /// State functions that it supports.
    states: HashSet<String>,
}

/// Uses by name: how often, and the first location.
type Uses = BTreeMap<String, (usize, PathBuf, usize)>;

fn count(uses: &mut Uses, name: &str, file: &Path, line: usize) {
    let entry = uses.entry(name.to_owned());
    entry.or_insert_with(|| (0, file.to_owned(), line)).0 += 1;
}

impl TreeChecker {
    fn root(&self, tree: Tree, root: &Path, report: &mut Report) {
        let mut files = Vec::new();
        collect(root, 0, &mut files);
        let templates = Pipeline {
            default: "jinja".into(),
            ..self.pipeline.clone()
        };
        let (mut states, mut functions) = (Uses::new(), Uses::new());
        let before = report.findings.len();
        for file in &files {
            let text = match fs::read_to_string(file) {
                Ok(text) => text,
                Err(e) => {
                    let note = format!("cannot be read: {e}");
                    let found = Finding::about(Verdict::NeedsAction, file, "file", note);
                    report.findings.push(found);
                    continue;
                }
            };
            let pipeline = if is_sls(file) {
                &self.pipeline
            } else {
                &templates
            };
            let seen = usage::scan(&text, &file.to_string_lossy(), pipeline);
            self.file(tree, file, &seen, report);
            // States of `salt` are the master's: orchestration.
            let lacking = |name: &&(String, usize)| {
                !name.0.starts_with("salt.") && !self.states.contains(&name.0)
            };
            for (name, line) in seen.states.iter().filter(lacking) {
                count(&mut states, name, file, *line);
            }
            for (name, line) in &seen.functions {
                let here = match tree {
                    Tree::States => self.functions.contains(name),
                    Tree::Pillar => exists(name),
                };
                if !here {
                    count(&mut functions, name, file, *line);
                }
            }
        }
        self.uses(tree, functions, report);
        if tree == Tree::States {
            self.lacking_states(states, report);
            own_modules(root, "_", report);
        }
        let clean = report.findings[before..].iter().all(|f| f.line == 0);
        let name = match tree {
            Tree::States => "states",
            Tree::Pillar => "pillar",
        };
        let sls = files.iter().filter(|file| is_sls(file)).count();
        let note = match (sls, clean) {
            (0, _) => "no .sls files".to_owned(),
            (1, true) => "1 .sls file, which can be read".to_owned(),
            (n, true) => format!("{n} .sls files, which can all be read"),
            (n, false) => format!("{n} .sls files; what is to be known of them stands above"),
        };
        let found = Finding::about(Verdict::Supported, root, name, note);
        report.findings.push(found);
    }

    fn file(&self, tree: Tree, file: &Path, seen: &SlsUsage, report: &mut Report) {
        let mut tell = |verdict, line, what: &str, note: String| {
            let found = Finding::about(verdict, file, what, note).at(line);
            report.findings.push(found);
        };
        for name in &seen.absent_renderers {
            let what = format!("renderer {name}");
            match tree {
                Tree::Pillar => {
                    let note = "the master renders pillar, and halite has no such renderer";
                    tell(Verdict::NeedsAction, 1, &what, note.to_owned());
                }
                Tree::States => {
                    let note = "stock minions render it as before, halite-minion renders py and renderers of your own; orchestration and reactor cannot";
                    tell(Verdict::Different, 1, &what, note.to_owned());
                }
            }
        }
        for (name, line) in &seen.absent_filters {
            let what = format!("filter {name}");
            match tree {
                Tree::Pillar => {
                    let note = "halite does not have it for pillar: it would look at the master's disk or network, or is unknown";
                    tell(Verdict::NeedsAction, *line, &what, note.to_owned());
                }
                Tree::States => {
                    let note = "stock minions have it as before; orchestration, reactor and halite-minion do not";
                    tell(Verdict::Different, *line, &what, note.to_owned());
                }
            }
        }
        if let Some((why, line)) = &seen.fault {
            tell(
                Verdict::NeedsAction,
                *line,
                "file",
                format!("cannot be read: {why}"),
            );
        }
    }

    /// The state functions that halite's minion lacks.
    fn lacking_states(&self, states: Uses, report: &mut Report) {
        for (name, (times, file, line)) in states {
            let note = if is_of(&self.states, &name) && !LACKING.contains(&name.as_str()) {
                UNKNOWN
            } else {
                "halite-minion does not have it, unless a module of your own or legacy_salt does; stock minions have it as before"
            };
            let note = places("used", times) + note;
            let found = Finding::about(Verdict::Different, &file, &name, note).at(line);
            report.findings.push(found);
        }
    }

    fn uses(&self, tree: Tree, functions: Uses, report: &mut Report) {
        for (name, (times, file, line)) in functions {
            let times = places("called", times);
            let (verdict, note) = match tree {
                Tree::Pillar => (
                    Verdict::NeedsAction,
                    "templates of the pillar cannot call it on halite's master",
                ),
                Tree::States if is_of(&self.functions, &name) => (Verdict::Different, UNKNOWN),
                Tree::States => (
                    Verdict::Different,
                    "halite-minion does not have it, unless a module of your own or legacy_salt does; stock minions have it as before",
                ),
            };
            let what = format!("salt['{name}']");
            let found = Finding::about(verdict, &file, &what, times + note).at(line);
            report.findings.push(found);
        }
    }
}

/// State functions of stock 3008 that halite lacks, in modules that it has.
const LACKING: [&str; 5] = [
    "loop.until",
    "ssh_pki.certificate_managed_ssh",
    "ssh_pki.private_key_managed_ssh",
    "x509.certificate_managed_ssh",
    "x509.private_key_managed_ssh",
];
/// Of a module that halite has with all functions that it has in stock 3008.
const UNKNOWN: &str = "neither halite-minion nor Salt 3008 has it: a misspelt name, an older Salt's, or a module of your own";

/// Whether a function is of a module of these functions.
fn is_of(functions: &HashSet<String>, name: &str) -> bool {
    let module = name.split('.').next();
    functions.iter().any(|one| one.split('.').next() == module)
}

/// How often something is used, if more than once.
fn places(used: &str, times: usize) -> String {
    match times {
        1 => String::new(),
        n => format!("{used} in {n} places, the first here; "),
    }
}

fn is_sls(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "sls")
}

/// The SLS files and templates of them below a directory, sorted; symlinks are followed as in Salt.
fn collect(dir: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(meta) = fs::metadata(&path) else {
            continue;
        };
        if meta.is_dir() && depth < DEEPEST {
            collect(&path, depth + 1, out);
        }
        let read = path
            .extension()
            .is_some_and(|e| ["sls", "jinja", "j2"].iter().any(|known| e == *known));
        if read && meta.is_file() && meta.len() <= LARGEST && out.len() < MOST_FILES {
            out.push(path);
        }
    }
}

/// The administrator's own Python modules: `_modules`, `_runners` and so on below a root, or the same in
/// `extension_modules`, where the names have no underscore.
fn own_modules(root: &Path, prefix: &str, report: &mut Report) {
    let on_minions = execution::extension_kinds();
    for kind in runner::extension_kinds() {
        let dir = root.join(format!("{prefix}{kind}"));
        let mut names: Vec<String> = fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| n.ends_with(".py") && n != "__init__.py")
            .collect();
        if names.is_empty() {
            continue;
        }
        names.sort();
        let on_minions = on_minions.contains(&kind);
        if on_minions && prefix.is_empty() {
            // Files in `extension_modules` are the master's own copies.
            continue;
        }
        let (verdict, note) = if on_minions {
            (
                Verdict::Different,
                "stock minions take them as before; halite-minion runs those of docs/python.md",
            )
        } else if halite_python::files::KINDS
            .iter()
            .any(|(known, ..)| *known == kind)
        {
            (
                Verdict::Different,
                "halite's master runs those of docs/python.md",
            )
        } else {
            (
                Verdict::NeedsAction,
                "halite's master has no modules of this kind",
            )
        };
        let note = format!("{}: {note}", names.join(", "));
        let found = Finding::about(verdict, &dir, "modules of your own", note);
        report.findings.push(found);
    }
}
