//! ZIP files, read and written in this process.

use super::super::cmd::{Identity, IdentityGuard, identity};
use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::{cached, clean, error_about, list_of, no_template, sources, text, trim_output};
use halite_sys::safe_open::open_finite;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

/// The user of the argument `runas`, if it differs from the current one.
fn other_user(call: &Call<'_>) -> Result<Option<Identity>> {
    if !call.flag("runas") {
        return Ok(None);
    }
    let name = text(call, "runas");
    identity(Some(&name), None)
        .map_err(|_| CallError::Invocation(format!("User '{name}' does not exist")))
}

fn guard(user: Option<&Identity>) -> Result<IdentityGuard> {
    IdentityGuard::take(None, user).map_err(|e| CallError::Command(e.desc().to_owned()))
}

/// `os.path.relpath` of absolute paths.
fn relative(path: &Path, base: &Path) -> String {
    let parts = |path: &Path| -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
                Component::ParentDir => {
                    parts.pop();
                }
                _ => {}
            }
        }
        parts
    };
    let (path, base) = (parts(path), parts(base));
    let same = path.iter().zip(&base).take_while(|(a, b)| a == b).count();
    let mut found = vec!["..".to_owned(); base.len() - same];
    found.extend_from_slice(&path[same..]);
    if found.is_empty() {
        ".".to_owned()
    } else {
        found.join("/")
    }
}

pub fn zip(call: &mut Call<'_>) -> Result {
    let user = other_user(call)?;
    no_template(call)?;
    let sources = sources(call);
    let cwd = call.arg("cwd");
    let cwd = if cwd.truthy() {
        Some(python::str(cwd))
    } else {
        None
    };
    match &cwd {
        None if sources.iter().any(|s| !s.starts_with('/')) => {
            return Err(CallError::Invocation(
                "Relative paths require the 'cwd' parameter".into(),
            ));
        }
        Some(cwd) if !cwd.starts_with('/') => {
            return Err(CallError::Invocation("cwd must be absolute".into()));
        }
        _ => {}
    }
    let _guard = guard(user.as_ref())?;
    let mut packer = Packer {
        cwd,
        zip64: call.flag("zip64"),
        packed: Vec::new(),
    };
    // Stock ignores the error and returns what it has packed so far.
    if let Err(e) = packer.pack(&text(call, "zip_file"), &sources) {
        log::error!("Exception encountered creating zipfile: {e}");
    }
    Ok(packer.packed.into())
}

struct Packer {
    cwd: Option<String>,
    zip64: bool,
    packed: Vec<String>,
}

impl Packer {
    fn pack(&mut self, into: &str, sources: &[String]) -> io::Result<()> {
        let mut file = ZipWriter::new(File::create(into)?);
        let mut result = Ok(());
        for source in sources {
            let source = match &self.cwd {
                Some(cwd) => Path::new(cwd).join(source),
                None => PathBuf::from(source),
            };
            if !source.exists() {
                continue;
            }
            result = if source.is_dir() {
                self.directory(&mut file, &source)
            } else {
                let name = self.name(&source);
                self.packed.push(name.clone());
                self.add_file(&mut file, &source, &name)
            };
            if result.is_err() {
                break;
            }
        }
        file.finish()?;
        result
    }

    /// The name in the archive: relative to `cwd` if below it, else without the first `/`.
    fn name(&self, path: &Path) -> String {
        match &self.cwd {
            Some(cwd) if path.to_string_lossy().starts_with(cwd.as_str()) => {
                relative(path, Path::new(cwd))
            }
            _ => relative(path, Path::new("/")),
        }
    }

    /// A directory: itself, its files, then its subdirectories. Links to directories are skipped.
    fn directory(&mut self, file: &mut ZipWriter<File>, dir: &Path) -> io::Result<()> {
        let name = self.name(dir);
        self.packed.push(format!("{name}/"));
        self.add_file(file, dir, &name)?;
        // As with `os.walk`, an unreadable directory counts as empty.
        let entries: Vec<PathBuf> = fs::read_dir(dir)
            .map(|entries| entries.flatten().map(|e| e.path()).collect())
            .unwrap_or_default();
        let (dirs, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
        for path in files {
            let base = path.file_name().unwrap_or_default().to_string_lossy();
            let extraction_path = match name.as_str() {
                "." => format!("./{base}"),
                name => format!("{name}/{base}"),
            };
            self.packed.push(extraction_path.clone());
            self.add_file(file, &path, &extraction_path)?;
        }
        for path in dirs.into_iter().filter(|path| !path.is_symlink()) {
            self.directory(file, &path)?;
        }
        Ok(())
    }

    fn add_file(&self, file: &mut ZipWriter<File>, path: &Path, name: &str) -> io::Result<()> {
        let about = fs::metadata(path)?;
        let name = name.strip_prefix("./").unwrap_or(name);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .unix_permissions(about.mode() & 0o7777)
            .large_file(self.zip64)
            .last_modified_time(zip_time(about.mtime())?);
        if about.is_dir() {
            return file.add_directory(name, options).map_err(io::Error::from);
        }
        file.start_file(name, options)?;
        io::copy(&mut File::open(path)?, file)?;
        Ok(())
    }
}

/// The local modification time of a file; ZIP dates start in 1980.
fn zip_time(seconds: i64) -> io::Result<DateTime> {
    let time = jiff::Timestamp::from_second(seconds)
        .map_err(io::Error::other)?
        .to_zoned(jiff::tz::TimeZone::system());
    let part = |n: i8| u8::try_from(n).unwrap_or(0);
    DateTime::from_date_and_time(
        u16::try_from(time.year()).unwrap_or(0),
        part(time.month()),
        part(time.day()),
        part(time.hour()),
        part(time.minute()),
        part(time.second()),
    )
    .map_err(|_| io::Error::other("ZIP does not support timestamps before 1980"))
}

type Archive = ZipArchive<BufReader<File>>;

fn open(path: &str) -> Result<Archive, String> {
    let file =
        open_finite(path.as_ref()).map_err(|e| python::os_error(&e, path).message().to_owned())?;
    ZipArchive::new(BufReader::new(file)).map_err(|_| "File is not a zip file".to_owned())
}

pub fn unzip(call: &mut Call<'_>) -> Result {
    let user = other_user(call)?;
    no_template(call)?;
    let excludes = match call.arg("excludes") {
        value if value.truthy() => list_of(value).unwrap_or_default(),
        _ => Vec::new(),
    };
    let password = call.flag("password").then(|| text(call, "password"));
    let _guard = guard(user.as_ref())?;
    let unpacker = Unpacker {
        dest: PathBuf::from(text(call, "dest")),
        password,
        modes: call.flag("extract_perms"),
    };
    let names = unpacker
        .unpack(&text(call, "zip_file"), &excludes)
        .map_err(|e| CallError::Command(format!("Exception encountered unpacking zipfile: {e}")))?;
    trim_output(call, names)
}

struct Unpacker {
    dest: PathBuf,
    password: Option<String>,
    modes: bool,
}

impl Unpacker {
    fn unpack(&self, path: &str, excludes: &[String]) -> Result<Vec<String>, String> {
        let mut archive = open(path)?;
        let mut names = Vec::new();
        for at in 0..archive.len() {
            let name = match archive.by_index_raw(at) {
                Ok(entry) => name_of(&entry),
                Err(e) => return Err(e.to_string()),
            };
            if excludes.contains(&name) {
                continue;
            }
            self.extract_entry(&mut archive, at, &name)?;
            names.push(name);
        }
        Ok(names)
    }

    fn extract_entry(&self, archive: &mut Archive, at: usize, name: &str) -> Result<(), String> {
        let described = archive.by_index_raw(at).map(|entry| describe(&entry));
        let described = described.map_err(|e| e.to_string())?;
        let entry = match &self.password {
            Some(password) => archive.by_index_decrypt(at, password.as_bytes()),
            None => archive.by_index(at),
        };
        let mut entry = entry.map_err(|e| match e {
            ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => {
                format!("File {described} is encrypted, password required for extraction")
            }
            ZipError::InvalidPassword => {
                format!("Bad password for file {}", python::repr(&name.into()))
            }
            other => other.to_string(),
        })?;
        let path = extraction_path(&self.dest, name);
        let shown = path.to_string_lossy().into_owned();
        self.write(&mut entry, &path)
            .map_err(|e| python::os_error(&e, &shown).message().to_owned())
    }

    fn write<R: Read + Seek>(&self, entry: &mut ZipFile<'_, R>, path: &Path) -> io::Result<()> {
        self.check_parents(path)?;
        let mode = entry.unix_mode();
        if entry.is_symlink() {
            let mut target = String::new();
            entry.take(4096).read_to_string(&mut target)?;
            return symlink(&target, path).map_err(|e| link_error(&e, &target, path));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        if entry.is_dir() {
            fs::create_dir_all(path)?;
        } else {
            let mut file = File::create(path)?;
            io::copy(entry, &mut file)?;
            file.flush()?;
        }
        match mode.filter(|mode| mode & 0o7777 != 0) {
            Some(mode) if self.modes => {
                fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))
            }
            _ => Ok(()),
        }
    }

    /// Rejects destinations below a symbolic link.
    fn check_parents(&self, path: &Path) -> io::Result<()> {
        let below = path.strip_prefix(&self.dest).unwrap_or(path);
        let mut at = self.dest.clone();
        for part in below.components() {
            at.push(part);
            if at.is_symlink() {
                return Err(io::Error::other(format!(
                    "{} is a symbolic link; the archive must not write through it",
                    at.display()
                )));
            }
        }
        Ok(())
    }
}

/// Python's message for a link that cannot be created, with both names.
fn link_error(error: &io::Error, target: &str, path: &Path) -> io::Error {
    let path = path.to_string_lossy().into_owned();
    let text = python::os_error(error, "");
    let head = text.message().trim_end_matches(": ''");
    let path = python::repr(&path.into());
    io::Error::other(format!(
        "{head}: b{} -> {path}",
        python::repr(&target.into())
    ))
}

/// A member's path below a directory, without components that lead out of it.
fn extraction_path(dest: &Path, name: &str) -> PathBuf {
    let parts = name.split('/').filter(|p| !matches!(*p, "" | "." | ".."));
    dest.join(parts.collect::<PathBuf>())
}

/// A member's name; invalid UTF-8 is replaced.
pub fn name_of<R: Read>(entry: &ZipFile<'_, R>) -> String {
    match entry.name() {
        Ok(name) => name.into_owned(),
        Err(_) => String::from_utf8_lossy(entry.name_raw()).into_owned(),
    }
}

/// `repr(ZipInfo)`.
fn describe<R: Read>(entry: &ZipFile<'_, R>) -> String {
    let mut text = format!("<ZipInfo filename={}", python::repr(&name_of(entry).into()));
    let stored = entry.compression() == CompressionMethod::Stored;
    if !stored {
        text.push_str(" compress_type=deflate");
    }
    if let Some(mode) = entry.unix_mode() {
        text.push_str(&format!(" filemode='{}'", file_mode(mode)));
    }
    let (size, packed) = (entry.size(), entry.compressed_size());
    if !entry.is_dir() || size > 0 {
        text.push_str(&format!(" file_size={size}"));
    }
    if (!entry.is_dir() || packed > 0) && (!stored || size != packed) {
        text.push_str(&format!(" compress_size={packed}"));
    }
    text + ">"
}

/// `stat.filemode` without the set-id and sticky bits.
fn file_mode(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o120_000 => 'l',
        0o040_000 => 'd',
        0o100_000 => '-',
        _ => '?',
    };
    let letters = "rwxrwxrwx".chars().enumerate();
    let bits = letters.map(|(n, c)| if mode & (0o400 >> n) != 0 { c } else { '-' });
    std::iter::once(kind).chain(bits).collect()
}

pub fn is_encrypted(call: &mut Call<'_>) -> Result {
    let cached = cached(call)?;
    let mut archive = match open(&cached) {
        Ok(archive) => archive,
        Err(said) if said == "File is not a zip file" => {
            return Err(error_about(
                &format!("{} is not a ZIP file", text(call, "name")),
                &cached,
            ));
        }
        Err(said) => return Err(error_about(&said, &cached)),
    };
    let count = archive.len();
    let mut entries = (0..count).map(|at| archive.by_index_raw(at).map(|e| e.encrypted()));
    let found = entries.any(|e| e.unwrap_or(false));
    drop(entries);
    clean(call, &cached);
    Ok(found.into())
}
