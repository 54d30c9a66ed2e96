//! `archive`: unpacked archives (`salt/states/archive.py`).

mod format;
mod owner;
mod sums;
mod unpack;

use format::{format, strip};
use owner::{own, owned_outcome};

use super::file::{Ended, ToCache, outcome, signature_of};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::file::{self, FileHash, paths};
use halite_modules::execution::{CallError, find_for, python};
use halite_wire::{Map, Value, map, shlex};
use std::path::Path;

pub(super) const MODULE: StateModule = StateModule {
    name: "archive",
    functions: &[StateFunction::new(
        "extracted",
        extracted,
        "Ensures that an archive is unpacked in a directory.",
    )
    .args(args![
        source,
        source_hash = None,
        source_hash_name = None,
        source_hash_update = False,
        skip_files_list_verify = False,
        skip_verify = False,
        password = None,
        options = None,
        list_options = None,
        force = False,
        overwrite = False,
        clean = False,
        clean_parent = False,
        user = None,
        group = None,
        if_missing = None,
        trim_output = False,
        use_cmd_unzip = None,
        extract_perms = True,
        enforce_toplevel = True,
        enforce_ownership_on = None,
        archive_format = None,
        use_etag = False,
        signature = None,
        source_hash_sig = None,
        signed_by_any = None,
        signed_by_all = None,
        keyring = None,
        gnupghome = None,
        sig_backend = "gpg"
    ])
    .keywords()],
};

/// What this state ends with before it has done anything.
type Early<T> = std::result::Result<T, StateOutcome>;

const FORMATS: [&str; 3] = ["tar", "rar", "zip"];
const TAR_ENDINGS: [&str; 14] = [
    ".tar",
    ".tar.gz",
    ".tgz",
    ".taz",
    ".tar.bz2",
    ".tbz2",
    ".tbz",
    ".tb2",
    ".tar.xz",
    ".txz",
    ".tar.lzma",
    ".tlz",
    ".tar.zst",
    ".tar.Z",
];
const TRIMMED: i64 = 100;
const NOT_LISTED: &str = "If the source archive is a tar archive compressed using a compression type not natively \
    supported by the tar command, then setting the 'list_options' argument may allow the contents to be listed. \
    Otherwise, if Salt is unable to determine the files/directories in the archive, the following workaround(s) would \
    need to be used for this state to proceed (assuming the source file is a valid tar archive):\n\n- 'if_missing' \
    must be set";

/// The names in an archive, relative to where it is unpacked.
#[derive(Default)]
struct Contents {
    dirs: Vec<String>,
    files: Vec<String>,
    links: Vec<String>,
    top_dirs: Vec<String>,
    top_files: Vec<String>,
}

/// What a state works on.
struct Job {
    /// The directory, with a slash at the end.
    dir: String,
    /// The source, without what it has of `file://`.
    source: String,
    /// The source as it is shown.
    shown: String,
    /// The file with the archive.
    file: String,
    /// Whether the source is a file of this host.
    local: bool,
    /// The hash that the archive must have.
    sum: Option<FileHash>,
    /// The hash that it had last time.
    known: Option<FileHash>,
    format: String,
    options: Option<String>,
    strip: Option<i64>,
    ids: [Option<u32>; 2],
}

fn bad<T>(text: impl Into<String>) -> Result<Early<T>> {
    Ok(Err(StateOutcome::bad(text)))
}

fn extracted(s: &mut State<'_, '_>) -> Result {
    match run(s)? {
        Ok(outcome) | Err(outcome) => Ok(outcome),
    }
}

/// Arguments that need no look at the archive.
fn checked(s: &mut State<'_, '_>) -> Result<Early<Job>> {
    if s.flag("skip_files_list_verify") && s.flag("skip_verify") {
        return bad(
            "Only one of \"skip_files_list_verify\" and \"skip_verify\" can be set to True",
        );
    }
    if s.flag("clean") && s.flag("clean_parent") {
        return bad("Only one of 'clean' and 'clean_parent' can be set to True");
    }
    let name = s.name();
    if !paths::is_abs(&name) {
        return bad(format!("{name} is not an absolute path"));
    }
    let dir = format!("{}/", name.trim_end_matches('/'));
    if Path::new(&name).exists() && !Path::new(&name).is_dir() {
        return bad(format!(
            "{} exists and is not a directory",
            name.trim_end_matches('/')
        ));
    }
    if let Some(path) = s.text("if_missing") {
        if !paths::is_abs(&path) {
            return bad("Value for 'if_missing' is not an absolute path");
        }
        if Path::new(&path).exists() {
            let text = format!("Path {path} exists");
            return Ok(Err(StateOutcome::good(text)));
        }
    }
    if let Some(path) = s.text("enforce_ownership_on") {
        if !paths::is_abs(&path) {
            return bad("Value for 'enforce_ownership_on' is not an absolute path");
        }
        if !format!("{path}/").starts_with(&dir) {
            return bad(format!(
                "Value for 'enforce_ownership_on' must be within {dir}"
            ));
        }
    }
    let mut ids = [None, None];
    for (at, (arg, fun, what)) in [
        ("user", "user.info", "User"),
        ("group", "group.info", "Group"),
    ]
    .into_iter()
    .enumerate()
    {
        let value = s.arg(arg).clone();
        ids[at] = match &value {
            Value::Nil => None,
            Value::Int(id) => u32::try_from(*id).ok(),
            other if !other.truthy() => None,
            other => {
                let found = s.salt(fun, vec![other.clone()])?;
                let key = if at == 0 { "uid" } else { "gid" };
                let id = found.as_map().and_then(|m| m.int(key));
                let Some(id) = id.and_then(|id| u32::try_from(id).ok()) else {
                    return bad(format!("{what} {} does not exist", python::str(other)));
                };
                Some(id)
            }
        };
    }
    let backend = s.text("sig_backend").unwrap_or_default();
    let signed = s.flag("signature") || s.flag("source_hash_sig");
    if signed && find_for(s.ctx(), &format!("{backend}.verify")).is_none() {
        return bad(format!(
            "Cannot verify signatures because the {backend} module was not loaded"
        ));
    }
    let saltenv = s.saltenv();
    let (source, hash) = (s.arg("source").clone(), s.arg("source_hash").clone());
    let mut source = match file::source_list(s.call, &source, &hash, &saltenv) {
        Ok((source, _)) => python::str(&source),
        Err(CallError::Command(text)) => return bad(text),
        Err(fault) => return Err(fault),
    };
    let url = file::urlparse(&source);
    let local = matches!(url.scheme.as_str(), "" | "file");
    if local {
        source = paths::realpath(&paths::expanduser(&url.host_and_path()));
        if !Path::new(&source).is_file() {
            return bad(format!("Source file '{source}' does not exist"));
        }
    }
    let format = match format(s, &source) {
        Ok(format) => format,
        Err(text) => return bad(text),
    };
    if s.flag("password") && format != "zip" {
        return bad("The 'password' argument is only supported for zip archives");
    }
    let options = s.text("options").filter(|o| !o.is_empty());
    let strip = options
        .as_deref()
        .filter(|_| format == "tar")
        .and_then(strip);
    if options.is_some() && format == "rar" {
        return bad(
            "The 'options' argument is only compatible with the following archive formats: tar, zip",
        );
    }
    Ok(Ok(Job {
        dir,
        shown: file::redacted(&source),
        file: source.clone(),
        source,
        local,
        sum: None,
        known: None,
        format,
        options,
        strip,
        ids,
    }))
}

/// The archive as a local file, with its hash and its signatures checked.
fn fetched(s: &mut State<'_, '_>, job: &mut Job) -> Result<Early<()>> {
    let saltenv = s.saltenv();
    let get = ToCache {
        name: job.source.clone(),
        saltenv: saltenv.clone(),
        hash: s.arg("source_hash").clone(),
        hash_name: s.arg("source_hash_name").clone(),
        skip_verify: s.flag("skip_verify"),
        use_etag: s.flag("use_etag"),
        signature: signature_of(s, "source_hash_sig"),
    };
    job.sum = match get.wanted(s) {
        Ok(sum) => sum,
        Err(Ended::With(outcome)) => return Ok(Err(*outcome)),
        Err(Ended::Raised(fault)) => return Err(fault),
    };
    if s.flag("skip_files_list_verify") && is_known(s, job, &saltenv)? {
        let text = format!(
            "Archive {} existing source sum is the same as the expected one and skip_files_list_verify argument was set \
             to True. Extraction is not needed",
            job.shown
        );
        return Ok(Err(match s.test {
            true => StateOutcome::would(text),
            false => StateOutcome::good(text),
        }));
    }
    if !job.local {
        if s.test {
            return Ok(Err(StateOutcome::would(format!(
                "Archive {} would be cached (if necessary) and checked to discover if extraction is needed",
                job.shown
            ))));
        }
        match outcome(get.cache(s, job.sum.clone())) {
            Ok(done) if done.result == Some(false) => {
                return Ok(Err(done.with("name", job.source.as_str())));
            }
            Ok(_) => {}
            Err(fault) => {
                let why = fault.message();
                return bad(format!("Failed to cache {}: {why}", job.shown));
            }
        }
        let args = [Value::from(job.source.as_str()), saltenv.as_str().into()];
        job.file = python::str(&s.salt("cp.is_cached", args)?);
    }
    let signature = signature_of(s, "signature");
    if signature.is_required() {
        let checked = file::check_signature(s.call, &job.file, &signature, &saltenv, &true.into());
        match checked {
            Err(CallError::Command(why)) => {
                return bad(format!(
                    "Failed verifying the source file's signature: {why}"
                ));
            }
            other => other?,
        }
    }
    job.known = sums::read(s, &job.file);
    if s.flag("source_hash") && s.flag("source_hash_update") && !get.skip_verify {
        sums::update(s, &job.file)?;
    }
    if job.format == "zip" && !s.flag("password") {
        let args = [Value::from(job.file.as_str())];
        let kwargs = map! {"clean" => false, "saltenv" => saltenv};
        match s.salt_with("archive.is_encrypted", args, kwargs) {
            Ok(Value::Bool(true)) => {
                return bad(format!(
                    "Archive {} is password-protected, but no password was specified. Please set the 'password' \
                     argument.",
                    job.shown
                ));
            }
            // It may be no archive at all; listing it will tell.
            Ok(_) | Err(CallError::Command(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(Ok(()))
}

/// Whether the archive was unpacked with its present hash before.
fn is_known(s: &mut State<'_, '_>, job: &Job, saltenv: &str) -> Result<bool> {
    let mut file = job.source.clone();
    if !job.local {
        file = python::str(&s.salt("cp.is_cached", [Value::from(file), saltenv.into()])?);
        if file.is_empty() {
            let url = file::urlparse(&job.source);
            let cache = s.ctx().cachedir.join("extrn_files").join(saltenv);
            file = format!("{}/{}{}", cache.display(), url.netloc, url.path);
        }
    }
    let known = sums::read(s, &file);
    Ok(match (known, &job.sum) {
        (Some(known), Some(sum)) => known.hsum == sum.hsum,
        _ => false,
    })
}

/// Checks the hash of a file of this host, which is not cached.
fn checked_hash(s: &State<'_, '_>, job: &Job) -> Result<Early<()>> {
    let Some(sum) = job
        .sum
        .as_ref()
        .filter(|_| job.local && !s.flag("skip_verify"))
    else {
        return Ok(Ok(()));
    };
    if file::get_hash(&job.file, &sum.hash_type)? == sum.hsum {
        return Ok(Ok(()));
    }
    bad(format!(
        "{} does not match the desired source_hash {}",
        job.shown, sum.hsum
    ))
}

fn contents(s: &mut State<'_, '_>, job: &Job) -> Result<Early<Contents>> {
    let mut kwargs = map! {
        "archive_format" => job.format.as_str(), "verbose" => true,
        "options" => s.arg("list_options").clone(), "clean" => false,
    };
    if let Some(strip) = job.strip {
        kwargs.set("strip_components", strip);
    }
    let listed = match s.salt_with("archive.list", vec![job.file.as_str().into()], kwargs) {
        Ok(listed) => listed.into_map().unwrap_or_default(),
        Err(CallError::Command(text)) => {
            // Without a list the names are unknown; what then decides is `if_missing`, which does not exist.
            return bad(format!("{text}\n\n{NOT_LISTED}"));
        }
        Err(fault) => return Err(fault),
    };
    let list = |key: &str| listed.get(key).map(Value::str_list).unwrap_or_default();
    let mut top_files = list("top_level_files");
    top_files.extend(list("top_level_links"));
    Ok(Ok(Contents {
        dirs: list("dirs"),
        files: list("files"),
        links: list("links"),
        top_dirs: list("top_level_dirs"),
        top_files,
    }))
}

/// Whether a file is what the archive has.
type Fits = fn(&std::fs::Metadata) -> bool;

/// The names that are missing or something else than in the archive.
fn compared(job: &Job, contents: &Contents) -> (bool, Vec<String>) {
    let (mut missing, mut wrong) = (false, Vec::new());
    let kinds: [(&[String], Fits); 3] = [
        (&contents.dirs, |m| m.is_dir()),
        (&contents.files, |m| !m.is_symlink() && !m.is_dir()),
        (&contents.links, |m| m.is_symlink()),
    ];
    for (names, fits) in kinds {
        for name in names {
            let path = format!("{}{name}", job.dir);
            match std::fs::symlink_metadata(path.trim_end_matches('/')) {
                Ok(meta) if fits(&meta) => {}
                Ok(_) => wrong.push(name.clone()),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => missing = true,
                // Something above it is wrong.
                Err(_) => {}
            }
        }
    }
    wrong.sort();
    (missing, wrong)
}

fn run(s: &mut State<'_, '_>) -> Result<Early<StateOutcome>> {
    let limit = match s.arg("trim_output") {
        Value::Bool(true) => Some(TRIMMED),
        value if !value.truthy() => None,
        value => Some(python::int(value)?),
    };
    let mut job = match checked(s)? {
        Ok(job) => job,
        Err(outcome) => return Ok(Err(outcome)),
    };
    if let Err(outcome) = fetched(s, &mut job)? {
        return Ok(Err(outcome));
    }
    let contents = match contents(s, &job)? {
        Ok(contents) => contents,
        Err(outcome) => return Ok(Err(outcome)),
    };
    if s.flag("enforce_toplevel") && (contents.top_dirs.len() > 1 || !contents.top_files.is_empty())
    {
        return bad(format!(
            "Archive does not have a single top-level directory. To allow this archive to be extracted, set \
             'enforce_toplevel' to False. To avoid a 'tar-bomb' it may also be advisable to set a top-level directory by \
             adding it to the 'name' value (for example, setting 'name' to {0}some_dir instead of {0}).",
            job.dir
        ));
    }
    if let Some(link) = foreign_link(&job, &contents) {
        return bad(format!(
            "{link} is a link that root does not own; the archive is not extracted through it"
        ));
    }
    let (mut missing, wrong) = compared(&job, &contents);
    let overwrite = s.flag("overwrite");
    let mut changes = Map::new();
    if !wrong.is_empty() {
        if !s.flag("force") {
            let list: Vec<String> = wrong.iter().map(|name| format!("- {name}")).collect();
            return bad(format!(
                "The below paths (relative to {}) exist, but are the incorrect type (file instead of directory, symlink \
                 instead of file, etc.). To proceed with extraction, set 'force' to True. Note that this will remove \
                 these paths before extracting.\n\n{}",
                job.dir,
                list.join("\n")
            ));
        }
        let full: Vec<String> = wrong.iter().map(|n| format!("{}{n}", job.dir)).collect();
        if s.test {
            changes.set("removed", full);
        } else {
            for path in full {
                file::remove(path.trim_end_matches('/'))?;
            }
            missing = true;
        }
    }
    let needed = missing || overwrite || !wrong.is_empty();
    let updated = !needed
        && s.flag("source_hash_update")
        && job.known.is_some()
        && job.known != sums::read(s, &job.file);
    if !needed && !updated {
        return owned_outcome(s, &job, &contents).map(Ok);
    }
    if let Err(outcome) = checked_hash(s, &job)? {
        return Ok(Err(outcome));
    }
    let why = if updated {
        ", due to source_hash update"
    } else if missing {
        ", due to absence of one or more files/dirs"
    } else {
        ""
    };
    if s.test {
        let cleaned = if s.flag("clean") {
            ", after cleaning destination path(s)"
        } else {
            ""
        };
        let text = format!(
            "Archive {} would be extracted to {}{cleaned}{why}",
            job.shown, job.dir
        );
        return Ok(Ok(StateOutcome::would(text).changes(changes)));
    }
    clean(s, &job, &contents, &mut changes)?;
    let created = !Path::new(&job.dir).is_dir();
    if created {
        let made = std::fs::create_dir_all(&job.dir);
        made.and_then(|()| std::os::unix::fs::lchown(&job.dir, job.ids[0], None))
            .map_err(|e| python::os_error(&e, &job.dir))?;
    }
    let mut names = match unpack::unpack(s, &job)? {
        Ok(names) => names,
        Err(outcome) => return Ok(Err(outcome)),
    };
    if own(s, &job, &contents)? {
        changes.set("updated ownership", true);
    }
    if created {
        changes.set("directories_created", vec![Value::from(job.dir.as_str())]);
    }
    let keep = ["keep_source", "keep"].iter().find_map(|k| s.kwargs.get(k));
    if !job.local && keep.is_some_and(|keep| !keep.truthy()) {
        // A copy of the file server's file is only a cache.
        if let Err(e) = std::fs::remove_file(&job.file) {
            log::warn!("{}: {e}", job.file);
        }
    }
    if names.is_empty() {
        return bad(format!("Can't extract content of {}", job.shown));
    }
    let mut text = format!("{} extracted to {}{why}", job.shown, job.dir);
    if let Some(limit) = limit {
        names.truncate(usize::try_from(limit).unwrap_or_default());
        text.push_str(&format!(". Output was trimmed to {limit} number of lines"));
    }
    changes.set("extracted_files", names);
    Ok(Ok(StateOutcome::good(text).changes(changes)))
}

/// A link of another account in place of a directory of the archive: what is below it is somewhere else.
fn foreign_link(job: &Job, contents: &Contents) -> Option<String> {
    let names = [&contents.dirs, &contents.files, &contents.links];
    let names = names.into_iter().flatten();
    let parents: std::collections::BTreeSet<&str> = names
        .flat_map(|name| {
            name.match_indices('/')
                .filter_map(move |(at, _)| name.get(..at))
        })
        .filter(|parent| !parent.is_empty())
        .collect();
    let mut paths = parents.into_iter().map(|p| format!("{}{p}", job.dir));
    paths.find(|path| {
        let meta = std::fs::symlink_metadata(path);
        meta.is_ok_and(|m| m.is_symlink() && std::os::unix::fs::MetadataExt::uid(&m) != 0)
    })
}

fn top(contents: &Contents) -> impl Iterator<Item = &String> {
    contents.top_dirs.iter().chain(&contents.top_files)
}

/// Removes what was there before.
fn clean(s: &mut State<'_, '_>, job: &Job, contents: &Contents, changes: &mut Map) -> Result<()> {
    if s.flag("clean_parent") && Path::new(&job.dir).exists() {
        file::remove(job.dir.trim_end_matches('/'))?;
        changes.set(
            "removed",
            format!("Directory {} was removed prior to the extraction", job.dir),
        );
    }
    if s.flag("clean") {
        let mut removed: Vec<Value> = Vec::new();
        for name in top(contents) {
            let path = format!("{}{name}", job.dir);
            if std::fs::symlink_metadata(path.trim_end_matches('/')).is_ok() {
                file::remove(path.trim_end_matches('/'))?;
                removed.push(path.into());
            }
        }
        if !removed.is_empty() {
            changes.set("removed", removed);
        }
    }
    Ok(())
}
