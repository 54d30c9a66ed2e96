//! Hashes of files, and files of hashes.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::source::{self, VALID_PROTOS, urlparse};
use crate::files::{FileClient, FileHash};
use halite_crypto::HashType;
use halite_wire::map;
use halite_wire::{Map, Value, pylines, pytext};
use std::io;

/// Hash types and their number of digits, longest first (`salt/utils/files.py HASHES`).
const HASHES: [(&str, usize); 6] = [
    ("sha512", 128),
    ("sha384", 96),
    ("sha256", 64),
    ("sha224", 56),
    ("sha1", 40),
    ("md5", 32),
];

/// What functions of `file` need of a hash; its digits are empty if unknown.
impl FileHash {
    /// A hash of a type.
    pub fn new(hsum: impl Into<String>, hash_type: impl Into<String>) -> FileHash {
        FileHash {
            hsum: hsum.into(),
            hash_type: hash_type.into(),
        }
    }

    /// The SHA-256 hash of a text.
    pub fn of_text(text: &str) -> FileHash {
        let kind = HashType::Sha256;
        FileHash::new(kind.hex(text.as_bytes()), kind.name())
    }

    /// Reads the form functions pass to each other; an empty map has no hash.
    pub fn from_value(value: &Value) -> Option<FileHash> {
        let map = value.as_map()?;
        let hsum = map.get("hsum").map(python::str)?;
        let kind = map.get("hash_type").map(python::str);
        Some(FileHash::new(hsum, kind.unwrap_or_default()))
    }

    /// The form functions return.
    pub fn map(&self) -> Map {
        map! {"hsum" => self.hsum.as_str(), "hash_type" => self.hash_type.as_str()}
    }
}

fn kind_of_length(length: usize) -> Option<&'static str> {
    HASHES.iter().find(|(_, n)| *n == length).map(|(k, _)| *k)
}

fn length_of_kind(kind: &str) -> Option<usize> {
    HASHES.iter().find(|(k, _)| *k == kind).map(|(_, n)| *n)
}

/// `md5 (32), sha1 (40), ...`.
fn kinds_and_lengths() -> String {
    let shown = HASHES.iter().rev().map(|(k, n)| format!("{k} ({n})"));
    shown.collect::<Vec<_>>().join(", ")
}

/// The hash of a file (`salt/utils/hashutils.py get_hash`).
///
/// # Errors
/// Unknown hash type, or unreadable file.
pub fn get_hash(path: &str, form: &str) -> Result<String> {
    let Ok(kind) = form.parse::<HashType>() else {
        return Err(CallError::raised(
            "ValueError",
            format!("Invalid hash type: {form}"),
        ));
    };
    let bad = |e: io::Error| os::fault(&e, path);
    let file = halite_sys::safe_open::open_finite(path.as_ref()).map_err(bad)?;
    kind.hex_of(file).map_err(|e| {
        if e.kind() == io::ErrorKind::IsADirectory {
            bad(e)
        } else {
            os::bare_fault(&e)
        }
    })
}

/// The hash on the file server (`cp.hash_file`).
///
/// # Errors
/// The file server is unreachable.
pub fn hash_file(call: &mut Call<'_>, url: &str, saltenv: &str) -> Result<Option<FileHash>> {
    let client = FileClient::new(call.ctx)?;
    Ok(client.hash(url, source::env_of(url, saltenv))?)
}

fn path(call: &Call<'_>) -> String {
    expanduser(&call.text("path").unwrap_or_default())
}

pub fn get_sum_function(call: &mut Call<'_>) -> Result {
    let path = path(call);
    if paths::is_file(&path) {
        Ok(get_hash(&path, &python::str(call.arg("form")))?.into())
    } else {
        Ok("File not found".into())
    }
}

pub fn get_hash_function(call: &mut Call<'_>) -> Result {
    Ok(get_hash(&path(call), &python::str(call.arg("form")))?.into())
}

pub fn check_hash_function(call: &mut Call<'_>) -> Result {
    let Value::Str(wanted) = call.arg("file_hash") else {
        return os::invocation("hash must be a string");
    };
    let (kind, digits) = match wanted.split_once(':').or_else(|| wanted.split_once('=')) {
        Some(parts) => parts,
        None => match kind_of_length(wanted.chars().count()) {
            Some(kind) => (kind, wanted.as_str()),
            None => {
                return os::invocation(format!(
                    "Hash {wanted} (length: {}) could not be matched to a supported hash type. \
                     The supported hash types and lengths are: {}",
                    wanted.chars().count(),
                    kinds_and_lengths()
                ));
            }
        },
    };
    Ok((get_hash(&path(call), kind)? == digits).into())
}

/// Arguments of `file.get_source_sum`.
#[derive(Clone, Debug, Default)]
pub struct SourceHash {
    /// The managed file.
    pub file_name: String,
    /// Where the content comes from.
    pub source: String,
    /// `source_hash`.
    pub hash: Value,
    /// `source_hash_name`.
    pub hash_name: Value,
    /// The environment.
    pub saltenv: String,
    /// `verify_ssl`.
    pub verify_ssl: Value,
    /// Required signatures of the file of hashes.
    pub signature: source::Signature,
}

fn invalid_format(hash: &Value) -> CallError {
    CallError::Command(format!(
        "Source hash {} format is invalid. The supported formats are: 1) a hash, 2) an expression in the \
         format <hash_type>=<hash>, or 3) either a path to a local file containing hashes, or a URI of a \
         remote hash file. Supported protocols for remote hash files are: {}. The hash may also not be of a \
         valid length, the following are supported hash types and lengths: {}.",
        source::redacted(&python::str(hash)),
        VALID_PROTOS.join(", "),
        kinds_and_lengths()
    ))
}

/// Resolves a `source_hash` (`file.get_source_sum`).
///
/// # Errors
/// It is invalid, or its file is missing.
pub fn get_source_sum(call: &mut Call<'_>, want: &SourceHash) -> Result<FileHash> {
    let Value::Str(text) = &want.hash else {
        return Err(CallError::Type(format!(
            "expected str, bytes or os.PathLike object, not {}",
            python::type_name(&want.hash)
        )));
    };
    let mut sum = match file_of_hashes(call, want, text)? {
        Some(file) => extract_hash(&ExtractHashArgs {
            file,
            hash_type: String::new(),
            file_name: want.file_name.clone(),
            source: want.source.clone(),
            hash_name: want.hash_name.clone(),
        })?
        .ok_or_else(|| invalid_format(&want.hash))?,
        None => parse_sum(text)?,
    };
    sum.hsum = sum.hsum.to_lowercase();
    Ok(sum)
}

/// The local copy of the file of hashes, if the text is its URL.
fn file_of_hashes(call: &mut Call<'_>, want: &SourceHash, text: &str) -> Result<Option<String>> {
    if paths::is_abs(text) {
        return Ok(Some(text.to_owned()));
    }
    let scheme = urlparse(text).scheme;
    if !VALID_PROTOS.contains(&scheme.as_str()) {
        return if scheme.is_empty() {
            Ok(None)
        } else {
            Err(invalid_format(&want.hash))
        };
    }
    let verify = map! {"verify_ssl" => want.verify_ssl.clone()};
    let Some(file) = source::cache_file(call, text, &want.saltenv, verify)? else {
        return os::command(format!(
            "Source hash file {} not found",
            source::redacted(text)
        ));
    };
    if want.signature.is_required() {
        source::check_signature(
            call,
            &file,
            &want.signature,
            &want.saltenv,
            &want.verify_ssl,
        )?;
    }
    Ok(Some(file))
}

/// `<type>=<digits>`, or digits only.
fn parse_sum(text: &str) -> Result<FileHash> {
    let bad = || invalid_format(&text.into());
    let sum = match text.split_once('=') {
        Some((kind, digits)) => FileHash::new(digits.trim(), kind.trim()),
        None => {
            let digits = text.strip_suffix('\n').unwrap_or(text);
            let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
            let kind = kind_of_length(text.len()).filter(|_| hex).ok_or_else(bad)?;
            FileHash::new(text, kind)
        }
    };
    let Some(wanted) = length_of_kind(&sum.hash_type) else {
        let known: Vec<&str> = HASHES.iter().map(|(k, _)| *k).collect();
        return os::command(format!(
            "Invalid hash type '{}'. Supported hash types are: {}. Either remove the hash type and simply \
             use '{}' as the source_hash, or change the hash type to a supported type.",
            sum.hash_type,
            known.join(", "),
            sum.hsum
        ));
    };
    let length = sum.hsum.chars().count();
    let fitting = kind_of_length(length).ok_or_else(bad)?;
    if length != wanted {
        return os::command(format!(
            "Invalid length ({length}) for hash type '{}'. Either remove the hash type and simply use '{}' \
             as the source_hash, or change the hash type to '{fitting}'",
            sum.hash_type, sum.hsum
        ));
    }
    Ok(sum)
}

pub fn get_source_sum_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let want = SourceHash {
        file_name: text("file_name"),
        source: text("source"),
        hash: call.arg("source_hash").clone(),
        hash_name: call.arg("source_hash_name").clone(),
        saltenv: text("saltenv"),
        verify_ssl: call.arg("verify_ssl").clone(),
        signature: source::Signature::from_call(call, "source_hash_sig"),
    };
    Ok(get_source_sum(call, &want)?.map().into())
}

/// What to look for in a file of hashes.
#[derive(Clone, Debug, Default)]
pub struct ExtractHashArgs {
    /// The file.
    pub file: String,
    /// The hash type; unknown types mean any.
    pub hash_type: String,
    /// The managed file; may be empty.
    pub file_name: String,
    /// Source of its content; may be empty.
    pub source: String,
    /// The name to look for in a file of hashes.
    pub hash_name: Value,
}

/// The hash of a file, else the first one (`file.extract_hash`).
///
/// # Errors
/// The file cannot be read.
pub fn extract_hash(want: &ExtractHashArgs) -> Result<Option<FileHash>> {
    let length = length_of_kind(&want.hash_type);
    let hash_name = if want.hash_name.truthy() {
        python::str(&want.hash_name)
    } else {
        String::new()
    };
    let parsed = urlparse(&want.source);
    let from = match parsed.path.as_str() {
        "" => parsed.netloc,
        path => path.to_owned(),
    };
    type Separator<'a> = &'a dyn Fn(char) -> bool;
    let separators = |c: char| pytext::is_space(c) || matches!(c, '\\' | '/' | '*');
    let text = os::read_text(&want.file)?;
    let mut first = None;
    let mut found: [Option<FileHash>; 3] = Default::default();
    for line in pylines::of_file(&text) {
        let line = line.trim_matches(pytext::is_space);
        let Some(sum) = hash_in(line, length) else {
            continue;
        };
        first.get_or_insert_with(|| sum.clone());
        let base = paths::basename(&want.file_name);
        let tests: [(&str, &str, Separator); 3] = [
            (&hash_name, &hash_name, &pytext::is_space),
            (&want.file_name, base, &separators),
            (&want.source, paths::basename(&from), &separators),
        ];
        for ((full, end, is_separator), slot) in tests.into_iter().zip(&mut found) {
            if !full.is_empty() && names(line, full, end, is_separator) {
                slot.get_or_insert_with(|| sum.clone());
            }
        }
    }
    Ok(found.into_iter().flatten().next().or(first))
}

/// Whether a line starts or ends with a name.
fn names(line: &str, full: &str, end: &str, is_separator: &dyn Fn(char) -> bool) -> bool {
    match line.strip_suffix(end) {
        Some(before) => before.chars().next_back().is_some_and(is_separator),
        None => line
            .strip_prefix(full)
            .and_then(|behind| behind.chars().next())
            .is_some_and(pytext::is_space),
    }
}

/// The first hash in a line that is not part of a longer word and has an even length.
fn hash_in(line: &str, length: Option<usize>) -> Option<FileHash> {
    let fits = |word: &&str| {
        let right = match length {
            Some(length) => word.len() == length,
            None => (32..=128).contains(&word.len()),
        };
        right && word.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let word = words.find(fits)?;
    Some(FileHash::new(word, kind_of_length(word.len())?))
}

pub fn extract_hash_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| {
        if call.flag(name) {
            python::str(call.arg(name))
        } else {
            String::new()
        }
    };
    let found = extract_hash(&ExtractHashArgs {
        file: text("hash_fn"),
        hash_type: text("hash_type"),
        file_name: text("file_name"),
        source: text("source"),
        hash_name: call.arg("source_hash_name").clone(),
    })?;
    Ok(found.map_or(Value::Nil, |sum| sum.map().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file_of_hashes() {
        let (a, b) = ("a".repeat(32), "b".repeat(64));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sums").to_string_lossy().into_owned();
        std::fs::write(&file, format!("junk\n{a}  one.txt\n{b} *dir/two.txt\n")).unwrap();
        let find = |hash_type: &str, file_name: &str, source: &str| {
            let want = ExtractHashArgs {
                file: file.clone(),
                hash_type: hash_type.into(),
                file_name: file_name.into(),
                source: source.into(),
                hash_name: Value::Nil,
            };
            extract_hash(&want).unwrap().map(|s| s.hash_type)
        };
        assert_eq!(find("", "", ""), Some("md5".into()));
        assert_eq!(find("", "/x/two.txt", ""), Some("sha256".into()));
        assert_eq!(
            find("", "", "https://h/p/two.txt?q=1"),
            Some("sha256".into())
        );
        assert_eq!(find("sha256", "", ""), Some("sha256".into()));
        assert_eq!(find("sha512", "", ""), None);
        assert_eq!(
            parse_sum(&format!("md5={a}")).unwrap(),
            FileHash::new(a, "md5")
        );
        assert!(parse_sum("md5=abc").is_err());
        assert!(parse_sum(&b[..10]).is_err());
    }
}
