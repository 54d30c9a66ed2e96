//! Output of `halite-key`.

use super::options::KeyOptions;
use crate::output::{Outputter, Style, choose_name, render, want_color};
use halite_client::keys::{KeyTexts, Selection};
use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};

/// Standard output, and the file for the results, if any.
pub(super) struct KeyScreen {
    outputter: Outputter,
    style: Style,
    stdout: BufWriter<io::Stdout>,
    file: Option<File>,
}

impl KeyScreen {
    pub fn new(options: &KeyOptions, config: &MasterConfig) -> Result<KeyScreen, String> {
        let env = std::env::var("NO_COLOR").ok();
        let style = Style {
            color: want_color(
                options.output.no_color,
                options.output.force_color,
                config.color,
                io::stdout().is_terminal(),
                env.as_deref(),
            ),
            indent: options.output.out_indent,
            ..Style::default()
        };
        let asked = options.output.out.as_deref().or(config.output.as_deref());
        let outputter = choose_name(asked, "key", false, "")
            .parse()
            .unwrap_or_else(|e| {
                log::error!("{e}");
                Outputter::Nested
            });
        let file = match &options.output.out_file {
            Some(path) => {
                let mut open = OpenOptions::new();
                open.create(true).append(true);
                let opened = open.open(path).and_then(|f| {
                    if options.output.out_file_append {
                        Ok(f)
                    } else {
                        // Truncated, not replaced: its permissions stay.
                        f.set_len(0).map(|()| f)
                    }
                });
                Some(opened.map_err(|e| format!("{}: {e}", path.display()))?)
            }
            None => None,
        };
        Ok(KeyScreen {
            outputter,
            style,
            stdout: BufWriter::new(io::stdout()),
            file,
        })
    }

    /// Prints a message, which is not a result and thus never written to the file.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stdout, "{text}")
    }

    /// A prompt, without a newline.
    pub fn ask(&mut self, question: &str) -> io::Result<()> {
        self.stdout.write_all(question.as_bytes())?;
        self.stdout.flush()
    }

    /// Ids by state.
    pub fn ids(&mut self, selection: &Selection) -> io::Result<()> {
        let groups = selection.iter().map(|(state, ids)| {
            let ids: Vec<Value> = ids.iter().map(Value::from).collect();
            (state.dir(), ids)
        });
        let data: Map = groups.collect();
        self.result_map(data)
    }

    /// Ids with a text each, by group.
    pub fn texts(&mut self, texts: &KeyTexts) -> io::Result<()> {
        let groups = texts.iter().map(|(group, entries)| {
            let entries: Map = entries
                .iter()
                .map(|(id, text)| (id, without_controls(text)))
                .collect();
            (*group, entries)
        });
        let data: Map = groups.collect();
        self.result_map(data)
    }

    /// A result that is not a listing.
    pub fn result(&mut self, value: Value) -> io::Result<()> {
        self.result_map(halite_wire::map! {"return" => value})
    }

    fn result_map(&mut self, data: Map) -> io::Result<()> {
        let text = render(self.outputter, &Value::Map(data), &self.style);
        if text.is_empty() {
            return Ok(());
        }
        match &mut self.file {
            Some(file) => writeln!(file, "{text}"),
            None => writeln!(self.stdout, "{text}"),
        }
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// What a minion sent, without what a terminal would obey: one key could be shown in place of another.
fn without_controls(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}
