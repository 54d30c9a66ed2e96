//! Shows returns as they arrive, and determines the exit status.

use super::SaltOptions;
use crate::common::Screen;
use crate::output::{self, texts};
use halite_client::gather::MinionOutcome;
use halite_client::local::Published;
use halite_wire::{Map, Value};
use std::io::{IsTerminal, Write};

/// Exit status if no minion matched or the master refused.
pub(super) const EXIT_NOTHING: i32 = 2;

/// Collects outcomes and prints them.
pub(super) struct ResultPrinter {
    /// The output.
    pub screen: Screen,
    fixed: bool,
    doc: bool,
    hide_timeout: bool,
    progress: bool,
    fun: String,
    expected: usize,
    seen: usize,
    jid: String,
    collected: Map,
    out: Option<String>,
    summary: texts::Summary,
    worst: i64,
    failed: bool,
    returned: bool,
    /// Whether these are the returns of a batch, which stock shows with their job id and return code.
    pub is_batch: bool,
    /// What was run by other programs than the minions' own, with the minions.
    elsewhere: Vec<(String, Vec<String>)>,
}

impl ResultPrinter {
    pub fn new(screen: Screen, options: &SaltOptions, hide_timeout: bool) -> ResultPrinter {
        ResultPrinter {
            screen,
            fixed: options.fixed,
            doc: options.doc || options.fun.as_deref() == Some("sys.doc"),
            hide_timeout,
            progress: options.progress && std::io::stderr().is_terminal(),
            fun: options.fun.clone().unwrap_or_default(),
            expected: 0,
            seen: 0,
            jid: String::new(),
            collected: Map::new(),
            out: None,
            summary: texts::Summary::default(),
            worst: 0,
            failed: false,
            returned: false,
            is_batch: false,
            elsewhere: Vec::new(),
        }
    }

    /// Records a job's minions; those without a key are reported at once.
    pub fn expect(&mut self, published: &Published) {
        self.expected += published.minions.len() + published.missing.len();
        self.jid = published.jid.clone();
        for id in &published.missing {
            self.add(id, MinionOutcome::NoKey);
        }
    }

    /// Whether a minion failed or did not return.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Minions did not get the job, and this says so.
    pub fn leave(&mut self, text: &str) {
        self.failed = true;
        eprint!("{text}");
    }

    /// Handles the outcome of one minion.
    pub fn add(&mut self, id: &str, outcome: MinionOutcome) {
        self.seen += 1;
        self.show_progress();
        let load = match outcome {
            MinionOutcome::Returned(load) => load,
            other => return self.missing(id, &other),
        };
        self.returned = true;
        if let Some(what) = texts::run_elsewhere(&self.fun, &load) {
            self.note_elsewhere(&what, id);
        }
        let ret = load.get("return").cloned().unwrap_or_default();
        let code = match load.get("retcode") {
            Some(Value::Int(n)) => *n,
            Some(Value::Map(codes)) => codes
                .iter()
                .filter_map(|(_, c)| c.as_int())
                .max()
                .unwrap_or(0),
            _ => texts::retcode_of(&ret),
        };
        self.worst = self.worst.max(code);
        self.failed |= code != 0;
        let full = halite_wire::map! {"ret" => ret.clone(), "retcode" => code};
        self.summary.add(id, &full.into());
        self.print(id, ret, load.str("out").unwrap_or_default(), code);
    }

    fn note_elsewhere(&mut self, what: &str, id: &str) {
        match self.elsewhere.iter_mut().find(|(known, _)| known == what) {
            Some((_, ids)) => ids.push(id.to_owned()),
            None => self.elsewhere.push((what.to_owned(), vec![id.to_owned()])),
        }
    }

    fn missing(&mut self, id: &str, outcome: &MinionOutcome) {
        self.failed = true;
        let text = match outcome {
            MinionOutcome::NotConnected => "Minion did not return. [Not connected]".to_owned(),
            MinionOutcome::NoKey => "Minion did not return. [No accepted key]\nNo key of this name is accepted; halite-key -L lists all keys".to_string(),
            MinionOutcome::Lost => format!(
                "Minion did not return. [Lost]\nThe minion is connected but knows nothing of the job, and no return has come: it \
                 was away when the job was published, or its log tells why. Should one come later: halite-run jobs.lookup_jid {}",
                self.jid
            ),
            _ => format!(
                "Minion did not return. [Still running]\nThe job continues. Its return: halite-run jobs.lookup_jid {}",
                self.jid
            ),
        };
        self.summary.add(id, &text.as_str().into());
        if !self.hide_timeout {
            self.print(id, text.into(), "no_return", 1);
        }
    }

    fn print(&mut self, id: &str, ret: Value, out: &str, code: i64) {
        if self.fixed || self.doc {
            if out != "no_return" {
                self.out = Some(out.to_owned());
            }
            self.collected.set(id, ret);
            return;
        }
        let name =
            output::choose_name(self.screen.out.as_deref(), out, false, &self.fun).to_owned();
        self.screen.style.retcode = code;
        let mut data = Map::new();
        if self.is_batch && out != "no_return" {
            data.set("retcode", code);
            data.set("jid", self.jid.as_str());
        }
        data.set(id, ret);
        self.screen.show(&name, &data.into());
    }

    fn show_progress(&self) {
        if self.progress && self.expected > 0 {
            let end = if self.seen >= self.expected {
                "\n"
            } else {
                "\r"
            };
            let _ = write!(
                std::io::stderr(),
                "{}/{} minions{end}",
                self.seen,
                self.expected
            );
        }
    }

    /// Shows that there are no returns: programs that read JSON get a document, as from Salt.
    pub fn show_nothing(&mut self) {
        if let Some(name) = self.screen.out.clone() {
            self.screen.show(&name, &Value::Map(Map::new()));
        }
    }

    /// Prints collected returns and the summary; returns the exit status.
    pub fn finish(mut self, summary: bool, verbose: bool) -> i32 {
        let collected = std::mem::take(&mut self.collected);
        if self.doc && self.screen.out.is_none() {
            self.screen.text(&texts::docs(&collected));
        } else if (self.fixed || self.doc) && !collected.is_empty() {
            let out = self.out.clone().unwrap_or_default();
            let name =
                output::choose_name(self.screen.out.as_deref(), &out, true, &self.fun).to_owned();
            self.screen.show(&name, &collected.into());
        }
        if summary {
            let text = self.summary.text(verbose);
            self.screen.text(&text);
        }
        for (what, ids) in &self.elsewhere {
            eprintln!("{}", texts::run_elsewhere_on(what, ids));
        }
        if self.seen == 0 {
            self.show_nothing();
            eprint!("{}", texts::NO_RETURN_RECEIVED);
            return EXIT_NOTHING;
        }
        if self.failed {
            // The exit status of a batch is the highest return code.
            if !self.is_batch {
                eprint!("{}", texts::NON_ZERO_EXIT);
            }
            return 1;
        }
        0
    }

    /// Exit status of a batch run: the highest return code.
    pub fn worst(&self) -> i64 {
        self.worst
    }
}
