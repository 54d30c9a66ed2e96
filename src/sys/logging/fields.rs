//! Structured fields of a log line: a closed set.
//!
//! They come from the key-values of a `log` call and from the process itself ([`set_process_fields`]). Other keys are not
//! shown, so that a mistyped or careless key leaks nothing.

use log::Record;
use log::kv::{Error, Key, Value, VisitSource};
use std::sync::OnceLock;

/// Characters of a value that are shown; longer values are cut.
const MOST: usize = 512;

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The job.
    Jid,
    /// Id of the minion.
    Minion,
    /// The function.
    Fun,
    /// Tag of the event.
    Tag,
    /// Address of the other side.
    Peer,
}

impl Field {
    /// All fields in display order.
    pub const ALL: [Field; 5] = [
        Field::Jid,
        Field::Minion,
        Field::Fun,
        Field::Tag,
        Field::Peer,
    ];

    /// Its key in `log` calls, and its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Field::Jid => "jid",
            Field::Minion => "minion",
            Field::Fun => "fun",
            Field::Tag => "tag",
            Field::Peer => "peer",
        }
    }

    /// Its name in the journal.
    pub fn in_journal(self) -> &'static str {
        match self {
            Field::Jid => "HALITE_JID",
            Field::Minion => "HALITE_MINION",
            Field::Fun => "HALITE_FUN",
            Field::Tag => "HALITE_TAG",
            Field::Peer => "HALITE_PEER",
        }
    }
}

/// The fields common to all lines of this process.
static ABOUT: OnceLock<Fields> = OnceLock::new();

/// Sets the fields common to all lines of this process, such as the job or the minion.
pub fn set_process_fields(fields: &[(Field, &str)]) {
    let mut all = Fields::default();
    for (field, value) in fields {
        all.set(*field, (*value).to_owned());
    }
    // The first call wins.
    let _ = ABOUT.set(all);
}

/// The fields of one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields([Option<String>; Field::ALL.len()]);

impl Fields {
    /// The fields of a record, with those of the process as defaults.
    pub fn of(record: &Record) -> Fields {
        let mut fields = ABOUT.get().cloned().unwrap_or_default();
        // Values that cannot be shown are left out.
        let _ = record.key_values().visit(&mut fields);
        fields
    }

    /// The value of a field.
    pub fn get(&self, field: Field) -> Option<&str> {
        self.0.get(field as usize)?.as_deref()
    }

    /// All fields that have a value.
    pub fn iter(&self) -> impl Iterator<Item = (Field, &str)> {
        Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, self.get(field)?)))
    }

    fn set(&mut self, field: Field, value: String) {
        if value.is_empty() {
            return;
        }
        if let Some(place) = self.0.get_mut(field as usize) {
            *place = Some(value.chars().take(MOST).collect());
        }
    }
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        if let Some(field) = Field::ALL.into_iter().find(|f| f.name() == key.as_str()) {
            self.set(field, value.to_string());
        }
        Ok(())
    }
}
