//! `archive`: packs, unpacks and lists archives.
//!
//! ZIP files are handled here, all others by external programs. Not supported: templated names. Unlike stock,
//! unpacking a ZIP file never writes through a symbolic link that the archive created.

mod list;
mod zip;

use super::declare::{Arg, Function, Module, Result, args};
use super::{Call, CallError, cmd, python};
use crate::files::FileClient;
use halite_config::glob;
use halite_wire::map;
use halite_wire::{Map, Value, shlex};
use std::path::Path;

const ZIP: &[Arg] = args![zip_file, sources, template = None, cwd = None, runas = None];
const PACKED: &[Arg] = args![gzipfile, template = None, runas = None, options = None];

pub(super) const MODULE: Module = Module {
    name: "archive",
    functions: &[
        Function::new(
            "list",
            list::list,
            "The names in an archive, or with verbose=True grouped by type.",
        )
        .inner("list_")
        .args(args![
            name,
            archive_format = None,
            options = None,
            strip_components = None,
            clean = False,
            verbose = False,
            saltenv = "base",
            source_hash = None,
            use_etag = False
        ]),
        Function::new(
            "tar",
            tar,
            "Runs tar with options, an archive, and what to pack or where to unpack.",
        )
        .args(args![
            options,
            tarfile,
            sources = None,
            dest = None,
            cwd = None,
            template = None,
            runas = None
        ]),
        Function::new(
            "gzip",
            |c| run_on_file(c, "gzip", "sourcefile"),
            "Compresses a file with gzip.",
        )
        .args(args![
            sourcefile,
            template = None,
            runas = None,
            options = None
        ]),
        Function::new(
            "gunzip",
            |c| run_on_file(c, "gunzip", "gzipfile"),
            "Unpacks a file with gunzip.",
        )
        .args(PACKED),
        Function::new(
            "cmd_zip",
            cmd_zip,
            "Packs files and directories with the program zip.",
        )
        .args(ZIP),
        Function::new(
            "zip",
            zip::zip,
            "Packs files and directories into a ZIP file and returns its content.",
        )
        .inner("zip_")
        .args(args![
            zip_file,
            sources,
            template = None,
            cwd = None,
            runas = None,
            zip64 = False
        ]),
        Function::new(
            "cmd_unzip",
            cmd_unzip,
            "Unpacks a ZIP file with the program unzip.",
        )
        .args(args![
            zip_file,
            dest,
            excludes = None,
            options = None,
            template = None,
            runas = None,
            trim_output = False,
            password = None
        ]),
        Function::new(
            "unzip",
            zip::unzip,
            "Unpacks a ZIP file into a directory and returns its content.",
        )
        .args(args![
            zip_file,
            dest,
            excludes = None,
            options = None,
            template = None,
            runas = None,
            trim_output = False,
            password = None,
            extract_perms = True
        ]),
        Function::new(
            "is_encrypted",
            zip::is_encrypted,
            "Whether a ZIP file needs a password.",
        )
        .args(args![
            name,
            clean = False,
            saltenv = "base",
            source_hash = None,
            use_etag = False
        ]),
        Function::new("rar", rar, "Packs files with the program rar.").args(args![
            rarfile,
            sources,
            template = None,
            cwd = None,
            runas = None
        ]),
        Function::new(
            "unrar",
            unrar,
            "Unpacks a file with the program unrar or rar.",
        )
        .args(args![
            rarfile,
            dest,
            excludes = None,
            template = None,
            runas = None,
            trim_output = False
        ]),
    ],
};

fn require_program(program: &str) -> Result<()> {
    match cmd::which(program) {
        Some(_) => Ok(()),
        None => Err(CallError::CommandNotFound(format!(
            "The '{program}' binary was not found in $PATH."
        ))),
    }
}

/// Rejects templated names, which this minion does not render.
fn no_template(call: &Call<'_>) -> Result<()> {
    if call.flag("template") {
        Err(CallError::Command(
            "This minion has no 'template' for archives: render the names before sending them"
                .into(),
        ))
    } else {
        Ok(())
    }
}

/// A list, a number, or text separated by commas; `None` without any.
fn list_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Nil => None,
        Value::Array(items) => Some(items.iter().map(python::str).collect()),
        other => Some(
            python::str(other)
                .split(',')
                .map(|s| s.trim().to_owned())
                .collect(),
        ),
    }
}

/// The argument `sources`, with patterns expanded.
fn sources(call: &Call<'_>) -> Vec<String> {
    let named = list_of(call.arg("sources")).unwrap_or_default();
    let expand = |name: String| {
        if glob::has_magic(&name) {
            glob::expand_dir(&name)
        } else {
            vec![name]
        }
    };
    named.into_iter().flat_map(expand).collect()
}

/// Runs a program and returns its output lines; sets the job's return code.
fn lines(call: &mut Call<'_>, words: Vec<String>) -> Result<Vec<String>> {
    no_template(call)?;
    let options = map! {
        "cwd" => call.arg("cwd").clone(), "runas" => call.arg("runas").clone(), "python_shell" => false,
    };
    let printed = call.salt("cmd.run", vec![words.into()], options)?;
    Ok(python::str(&printed).lines().map(str::to_owned).collect())
}

fn text(call: &Call<'_>, name: &str) -> String {
    python::str(call.arg(name))
}

fn tar(call: &mut Call<'_>) -> Result {
    require_program("tar")?;
    if !call.flag("options") {
        return Err(CallError::Invocation("Tar options can not be empty".into()));
    }
    let mut words = vec!["tar".to_owned()];
    words.extend(text(call, "options").split_whitespace().map(str::to_owned));
    words.push(text(call, "tarfile"));
    if call.flag("dest") {
        words.extend(["-C".to_owned(), text(call, "dest")]);
    }
    words.extend(sources(call));
    Ok(lines(call, words)?.into())
}

fn run_on_file(call: &mut Call<'_>, program: &str, file: &str) -> Result {
    require_program(program)?;
    let mut words = vec![program.to_owned()];
    if call.flag("options") {
        words.push(text(call, "options"));
    }
    words.push(text(call, file));
    Ok(lines(call, words)?.into())
}

fn cmd_zip(call: &mut Call<'_>) -> Result {
    require_program("zip")?;
    let mut words = vec!["zip".to_owned(), "-r".to_owned(), text(call, "zip_file")];
    words.extend(sources(call));
    Ok(lines(call, words)?.into())
}

fn cmd_unzip(call: &mut Call<'_>) -> Result {
    require_program("unzip")?;
    no_template(call)?;
    let mut words = vec!["unzip".to_owned()];
    let secret = call.flag("password");
    if secret {
        words.extend(["-P".to_owned(), text(call, "password")]);
    }
    if call.flag("options") {
        let options = shlex::split(&text(call, "options"));
        words.extend(options.map_err(|e| CallError::raised("ValueError", e))?);
    }
    words.extend([text(call, "zip_file"), "-d".to_owned(), text(call, "dest")]);
    if let Some(excludes) = list_of(call.arg("excludes")) {
        words.push("-x".to_owned());
        words.extend(excludes);
    }
    let options = map! {
        "runas" => call.arg("runas").clone(), "python_shell" => false, "redirect_stderr" => true,
        "output_loglevel" => if secret { "quiet" } else { "debug" },
    };
    let ran = call.salt("cmd.run_all", vec![words.into()], options)?;
    let ran = ran.into_map().unwrap_or_default();
    let printed = ran.str("stdout").unwrap_or_default();
    if ran.int("retcode") != Some(0) {
        return Err(CallError::Command(printed.to_owned()));
    }
    trim_output(call, printed.lines().map(str::to_owned).collect())
}

fn rar(call: &mut Call<'_>) -> Result {
    require_program("rar")?;
    let mut words: Vec<String> = ["rar", "a", "-idp"].map(str::to_owned).into();
    words.push(text(call, "rarfile"));
    words.extend(sources(call));
    Ok(lines(call, words)?.into())
}

fn unrar(call: &mut Call<'_>) -> Result {
    let Some(program) = ["unrar", "rar"].iter().find_map(|p| cmd::which(p)) else {
        return Err(CallError::CommandNotFound(
            "None of provided binaries([\"'unrar'\", \"'rar'\"]) were found in $PATH.".into(),
        ));
    };
    let mut words = vec![
        program,
        "x".to_owned(),
        "-idp".to_owned(),
        text(call, "rarfile"),
    ];
    for exclude in list_of(call.arg("excludes")).unwrap_or_default() {
        words.extend(["-x".to_owned(), exclude]);
    }
    words.push(text(call, "dest"));
    let files = lines(call, words)?;
    trim_output(call, files)
}

/// At most as many names as the argument `trim_output` allows; 100 for `True`.
fn trim_output(call: &Call<'_>, mut files: Vec<String>) -> Result {
    let count = match call.arg("trim_output") {
        Value::Bool(false) => return Ok(files.into()),
        Value::Bool(true) => 100,
        other => usize::try_from(python::int(other)?).unwrap_or(0),
    };
    if files.len() > count {
        files.truncate(count);
        files.push(format!("List trimmed after {count} files."));
    }
    Ok(files.into())
}

/// The local copy of the file at an address.
fn cached(call: &Call<'_>) -> Result<String> {
    let name = text(call, "name");
    if name.starts_with('/') {
        return Ok(name);
    }
    let found = FileClient::new(call.ctx)?.cache_file(&name, &text(call, "saltenv"))?;
    found
        .map(|path| path.to_string_lossy().into_owned())
        .ok_or_else(|| CallError::Command(format!("Failed to cache {name}")))
}

/// Removes the file if `clean` is set. A missing file is no error.
fn clean(call: &Call<'_>, cached: &str) {
    if !call.flag("clean") {
        return;
    }
    if let Err(e) = std::fs::remove_file(Path::new(cached))
        && e.kind() != std::io::ErrorKind::NotFound
    {
        log::warn!("Failed to clean cached archive {cached}: {e}");
    }
}

/// A message that includes the archive's path, as in stock's exceptions.
fn error_about(text: &str, cached: &str) -> CallError {
    let stop = if text.ends_with(['.', '?', '!']) {
        ""
    } else {
        "."
    };
    CallError::Command(format!(
        "{text}{stop} Additional info follows:\n\narchive location:\n    {cached}"
    ))
}

/// A map of names.
fn names(pairs: [(&str, Vec<String>); 6]) -> Map {
    pairs.into_iter().collect()
}
