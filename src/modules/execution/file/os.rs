//! File operations of Python's `os`, `shutil` and `tempfile`, with their error texts.

use super::super::command_helpers::take_after;
use super::super::{CallError, python};
use super::paths;
use crate::execution::declare::Result;
use halite_sys::held_path::{FileHandle, HeldPath, LastLink};
use halite_sys::safe_open::open_finite;
use halite_wire::Value;
use nix::errno::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The prefix of temporary files (`salt/utils/files.py TEMPFILE_PREFIX`).
pub const TEMPFILE_PREFIX: &str = "__salt.tmp.";
/// Maximum size of a file edited as text; stock has no limit.
const MAX_FILE_SIZE: u64 = 1 << 30;

/// `exc.strerror`.
pub fn strerror(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None => e.to_string(),
    }
}

/// `str(exc)` of an `OSError` about a path.
pub fn text(e: &io::Error, path: &str) -> String {
    match e.raw_os_error() {
        Some(number) => format!(
            "[Errno {number}] {}: {}",
            strerror(e),
            python::repr(&path.into())
        ),
        None => e.to_string(),
    }
}

/// The Python exception for an error about a path.
pub fn fault(e: &io::Error, path: &str) -> CallError {
    CallError::raised(class(e), text(e, path))
}

/// An error of a system call that Python words without a path.
pub fn bare_fault(e: &io::Error) -> CallError {
    let number = e.raw_os_error().unwrap_or_default();
    CallError::raised(class(e), format!("[Errno {number}] {}", strerror(e)))
}

fn class(e: &io::Error) -> &'static str {
    match e.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => "FileNotFoundError",
        Some(Errno::EACCES | Errno::EPERM) => "PermissionError",
        Some(Errno::EEXIST) => "FileExistsError",
        Some(Errno::ENOTDIR) => "NotADirectoryError",
        Some(Errno::EISDIR) => "IsADirectoryError",
        _ => "OSError",
    }
}

/// Whether Python's `except OSError` would catch it.
pub fn is_os_error(fault: &CallError) -> bool {
    let known = [
        "FileNotFoundError",
        "PermissionError",
        "FileExistsError",
        "NotADirectoryError",
        "IsADirectoryError",
        "OSError",
        "shutil.Error",
        "shutil.SameFileError",
    ];
    matches!(fault, CallError::Raised(class, _) if known.contains(&class.as_str()))
}

/// `CommandExecutionError`.
pub fn command<T>(text: impl Into<String>) -> Result<T> {
    Err(CallError::Command(text.into()))
}

/// `SaltInvocationError`.
pub fn invocation<T>(text: impl Into<String>) -> Result<T> {
    Err(CallError::Invocation(text.into()))
}

/// Reads a file.
///
/// # Errors
/// As `open(path, 'rb')`, or the file is too large.
pub fn read(path: &str) -> Result<Vec<u8>> {
    let mut file = open_finite(Path::new(path)).map_err(|e| fault(&e, path))?;
    let meta = file.metadata().map_err(|e| fault(&e, path))?;
    if meta.is_dir() {
        return Err(fault(
            &io::Error::from_raw_os_error(Errno::EISDIR as i32),
            path,
        ));
    }
    let mut data = Vec::new();
    let mut part = Read::by_ref(&mut file).take(MAX_FILE_SIZE + 1);
    part.read_to_end(&mut data).map_err(|e| fault(&e, path))?;
    if data.len() as u64 > MAX_FILE_SIZE {
        return command(format!("{path} is larger than {MAX_FILE_SIZE} bytes"));
    }
    Ok(data)
}

/// Reads a text file.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub fn read_text(path: &str) -> Result<String> {
    decoded(read(path)?)
}

/// Decodes bytes.
///
/// # Errors
/// It is not UTF-8.
pub fn decoded(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let text = halite_wire::pylines::utf8_error(e.as_bytes()).unwrap_or_default();
        CallError::raised("UnicodeDecodeError", text)
    })
}

/// A path to change a file by; a link in its last place is the file meant.
///
/// # Errors
/// Those of [`HeldPath::of`].
pub fn held(path: &str) -> Result<HeldPath> {
    HeldPath::of(path.as_ref(), LastLink::Keep).map_err(|e| fault(&e, path))
}

/// A handle of a file, to examine and change it.
///
/// # Errors
/// Those of [`HeldPath::of`], or there is none.
pub fn handle(path: &str, last: LastLink) -> io::Result<FileHandle> {
    HeldPath::of(path.as_ref(), last)?.handle()
}

/// Opens a file for a change, through links.
///
/// # Errors
/// As `open`, or those of [`HeldPath::of`].
pub fn open(path: &str, options: &mut OpenOptions) -> io::Result<File> {
    HeldPath::of(path.as_ref(), LastLink::Follow)?.open(options)
}

/// Opens a file for writing, truncating or creating it.
///
/// # Errors
/// As `open(path, 'w')`.
pub fn create(path: &str) -> Result<File> {
    open(
        path,
        OpenOptions::new().write(true).create(true).truncate(true),
    )
    .map_err(|e| fault(&e, path))
}

/// Creates a directory.
///
/// # Errors
/// As `os.mkdir`.
pub fn mkdir(path: &str) -> Result<()> {
    fs::create_dir(held(path)?).map_err(|e| fault(&e, path))
}

/// Removes a file or a link.
///
/// # Errors
/// As `os.remove`.
pub fn unlink(path: &str) -> Result<()> {
    fs::remove_file(held(path)?).map_err(|e| fault(&e, path))
}

/// Overwrites a file like `open(path, 'w')` and `write`: the inode stays the same.
///
/// # Errors
/// As `open(path, 'w')`.
pub fn overwrite(path: &str, data: &[u8]) -> Result<()> {
    create(path)?.write_all(data).map_err(|e| fault(&e, path))
}

/// Replaces a file by a new one with the same owner and mode (`salt/utils/atomicfile.py atomic_open`).
///
/// # Errors
/// As `open` and `rename`.
pub fn write_atomic(path: &str, data: &[u8]) -> Result<()> {
    let held = held(path)?;
    let (mut file, temporary) =
        mkstemp(held.dir(), ".___atomic_write").map_err(|e| fault(&e, path))?;
    let outcome = (|| {
        file.write_all(data)?;
        file.sync_all()?;
        match File::open(&held).ok().filter(is_regular) {
            Some(old) => take_after(&file, &old)?,
            None => file.set_permissions(fs::Permissions::from_mode(0o666 & !umask()))?,
        }
        fs::rename(&temporary, &held)
    })();
    outcome.map_err(|e| {
        let _ = fs::remove_file(&temporary);
        fault(&e, path)
    })
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file())
}

/// `tempfile.gettempdir()`.
pub fn temp_dir() -> PathBuf {
    let named = ["TMPDIR", "TEMP", "TMP"]
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .find(|dir| dir.is_dir());
    named.unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// `tempfile.mkstemp`: a new file only its owner can read and write.
///
/// # Errors
/// It cannot be created.
pub fn mkstemp(dir: &Path, prefix: &str) -> io::Result<(File, PathBuf)> {
    for _ in 0..100 {
        let path = dir.join(format!("{prefix}{}", random_name()));
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match made {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, path)),
        }
    }
    Err(io::Error::from_raw_os_error(Errno::EEXIST as i32))
}

/// Eight random characters, like Python's temporary names.
pub fn random_name() -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_";
    let mut rng = rand::thread_rng();
    (0..8)
        .map(|_| char::from(LETTERS[rand::Rng::gen_range(&mut rng, 0..LETTERS.len())]))
        .collect()
}

/// A temporary file, removed on drop (`salt.utils.files.mkstemp`, `__clean_tmp`).
pub struct TempFile(PathBuf);

impl TempFile {
    /// Creates one with this content.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn with(data: &[u8]) -> Result<TempFile> {
        let dir = temp_dir();
        let shown = dir.to_string_lossy().into_owned();
        let (mut file, path) = mkstemp(&dir, TEMPFILE_PREFIX).map_err(|e| fault(&e, &shown))?;
        let made = TempFile(path);
        file.write_all(data).map_err(|e| fault(&e, &shown))?;
        Ok(made)
    }

    /// Its path.
    pub fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Keeps the file and returns its path.
    pub fn persist(self) -> String {
        let path = self.path();
        std::mem::forget(self);
        path
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// `salt.utils.files.get_umask()`, read from the kernel without setting it.
pub fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok())
        .unwrap_or(0o022)
}

/// The opened source of a copy, which is not its target.
fn source_of(from: &str, to: &str) -> Result<File> {
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(a), Ok(b)) = (fs::metadata(from), fs::metadata(to))
        && same(a, b)
    {
        let shown = |p: &str| python::repr(&p.into());
        return Err(CallError::raised(
            "shutil.SameFileError",
            format!("{} and {} are the same file", shown(from), shown(to)),
        ));
    }
    open_finite(Path::new(from)).map_err(|e| fault(&e, from))
}

/// `shutil.copyfile`.
///
/// # Errors
/// As in Python.
pub fn copyfile(from: &str, to: &str) -> Result<()> {
    let mut source = source_of(from, to)?;
    if source.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(fault(
            &io::Error::from_raw_os_error(Errno::EISDIR as i32),
            from,
        ));
    }
    let mut target = create(to)?;
    io::copy(&mut source, &mut target)
        .map(|_| ())
        .map_err(|e| fault(&e, to))
}

/// [`copy2`] to a file of another name that nobody has given, such as a backup's: a link there is replaced and not
/// followed.
///
/// # Errors
/// As in Python.
pub fn copy_aside(from: &str, to: &str) -> Result<()> {
    let mut source = source_of(from, to)?;
    let meta = source.metadata().map_err(|e| fault(&e, from))?;
    let held = held(to)?;
    let (mut file, temporary) = mkstemp(held.dir(), ".").map_err(|e| fault(&e, to))?;
    let outcome = (|| {
        io::copy(&mut source, &mut file)?;
        let times = fs::FileTimes::new()
            .set_accessed(meta.accessed()?)
            .set_modified(meta.modified()?);
        file.set_times(times)?;
        file.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777))?;
        fs::rename(&temporary, &held)
    })();
    outcome.map_err(|e| {
        let _ = fs::remove_file(&temporary);
        fault(&e, to)
    })
}

/// `shutil.copystat`: mode and times.
fn copystat(from: &str, to: &str) -> Result<()> {
    let meta = fs::metadata(from).map_err(|e| fault(&e, from))?;
    let times = fs::FileTimes::new()
        .set_accessed(meta.accessed().map_err(|e| fault(&e, from))?)
        .set_modified(meta.modified().map_err(|e| fault(&e, from))?);
    let target = open(to, OpenOptions::new().read(true)).map_err(|e| fault(&e, to))?;
    target
        .set_times(times)
        .and_then(|()| target.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o7777)))
        .map_err(|e| fault(&e, to))
}

/// `shutil.copy2`.
///
/// # Errors
/// As in Python.
pub fn copy2(from: &str, to: &str) -> Result<()> {
    let to = if paths::is_dir(to) {
        paths::join(to, paths::basename(from))
    } else {
        to.to_owned()
    };
    copyfile(from, &to)?;
    copystat(from, &to)
}

/// `shutil.copytree`: the target must not exist; links are followed.
///
/// # Errors
/// As in Python, but only the first error instead of a list.
pub fn copytree(from: &str, to: &str) -> Result<()> {
    copy_tree(from, to, false)
}

/// `shutil.copytree` with `symlinks=True`: links are copied as links.
///
/// # Errors
/// As [`copytree`].
pub fn copytree_with_links(from: &str, to: &str) -> Result<()> {
    copy_tree(from, to, true)
}

/// `shutil.copy`: content and mode.
///
/// # Errors
/// As in Python.
pub fn copy_with_mode(from: &str, to: &str) -> Result<()> {
    copyfile(from, to)?;
    let meta = fs::metadata(from).map_err(|e| fault(&e, from))?;
    chmod(to, meta.mode())
}

fn copy_tree(from: &str, to: &str, keep_links: bool) -> Result<()> {
    let entries = list_dir(from)?;
    fs::create_dir_all(paths::dirname(to)).map_err(|e| fault(&e, to))?;
    mkdir(to)?;
    for name in entries {
        let (inner, target) = (paths::join(from, &name), paths::join(to, &name));
        if keep_links && paths::is_link(&inner) {
            let link = paths::readlink(&inner).map_err(|e| fault(&e, &inner))?;
            symlink(&link, &target)?;
        } else if paths::is_dir(&inner) {
            copy_tree(&inner, &target, keep_links)?;
        } else {
            copy2(&inner, &target)?;
        }
    }
    copystat(from, to)
}

/// `os.listdir`, sorted; Python returns the file system's arbitrary order.
///
/// # Errors
/// As in Python.
pub fn list_dir(dir: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir).map_err(|e| fault(&e, dir))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// `shutil.rmtree`.
///
/// # Errors
/// As in Python.
pub fn rmtree(path: &str) -> Result<()> {
    fs::remove_dir_all(held(path)?).map_err(|e| fault(&e, path))
}

/// `shutil.move`.
///
/// # Errors
/// As in Python.
pub fn move_to(from: &str, to: &str) -> Result<()> {
    let shown = |p: &str| python::repr(&p.into());
    let mut target = to.to_owned();
    if paths::is_dir(to) {
        let same = match (fs::metadata(from), fs::metadata(to)) {
            (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
            _ => false,
        };
        if !same || paths::is_link(from) {
            target = paths::join(to, paths::basename(from.trim_end_matches('/')));
            if paths::exists(&target) {
                return Err(CallError::raised(
                    "shutil.Error",
                    format!("Destination path '{target}' already exists"),
                ));
            }
        }
    }
    let Err(e) = fs::rename(held(from)?, held(&target)?) else {
        return Ok(());
    };
    if paths::is_link(from) {
        let link = paths::readlink(from).map_err(|e| fault(&e, from))?;
        symlink(&link, &target)?;
        return unlink(from);
    }
    if !paths::is_dir(from) {
        copy_aside(from, &target)?;
        return unlink(from);
    }
    if Path::new(&target).starts_with(from) {
        return Err(CallError::raised(
            "shutil.Error",
            format!("Cannot move a directory '{from}' into itself '{to}'."),
        ));
    }
    if e.raw_os_error() != Some(Errno::EXDEV as i32) && paths::exists(&target) {
        return Err(CallError::raised(
            "FileExistsError",
            format!("[Errno 17] File exists: {}", shown(&target)),
        ));
    }
    copy_tree(from, &target, true)?;
    rmtree(from)
}

/// `int(text, 8)` of a mode, without signs and underscores.
pub fn octal(text: &str) -> Option<u32> {
    let digits = text.trim();
    let digits = digits
        .strip_prefix("0o")
        .or(digits.strip_prefix("0O"))
        .unwrap_or(digits);
    let all = digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) && !digits.is_empty();
    u32::from_str_radix(digits, 8).ok().filter(|_| all)
}

/// `os.chmod`.
///
/// # Errors
/// As in Python.
pub fn chmod(path: &str, mode: u32) -> Result<()> {
    handle(path, LastLink::Follow)
        .and_then(|file| file.set_mode(mode))
        .map_err(|e| fault(&e, path))
}

/// Creates a symbolic link.
///
/// # Errors
/// As `os.symlink`.
pub fn symlink(target: &str, path: &str) -> Result<()> {
    std::os::unix::fs::symlink(target, held(path)?).map_err(|e| fault(&e, path))
}

/// At least four digits, without Python's `0o` (`salt/utils/files.py normalize_mode`).
pub fn normalize_mode(mode: &Value) -> Option<String> {
    if mode.is_nil() {
        return None;
    }
    let text = python::str(mode).replace("0o", "0");
    let text = text
        .trim_matches('"')
        .trim_matches('\'')
        .trim_start_matches('0');
    Some(format!("{text:0>4}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let shown = |v: Value| normalize_mode(&v).unwrap();
        assert_eq!(shown(644.into()), "0644");
        assert_eq!(shown("0o755".into()), "0755");
        assert_eq!(shown("'0644'".into()), "0644");
        assert_eq!(shown("4755".into()), "4755");
        assert_eq!(shown(0.into()), "0000");
        assert_eq!(normalize_mode(&Value::Nil), None);
        assert_eq!(
            [octal("755"), octal("9"), octal("")],
            [Some(0o755), None, None]
        );
    }

    #[test]
    fn files_are_moved_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        fs::write(at("a"), "one").unwrap();
        chmod(&at("a"), 0o640).unwrap();
        write_atomic(&at("a"), b"two").unwrap();
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "two");
        assert_eq!(fs::metadata(at("a")).unwrap().mode() & 0o7777, 0o640);
        fs::create_dir(at("d")).unwrap();
        move_to(&at("a"), &at("d")).unwrap();
        assert!(paths::is_file(&at("d/a")) && !paths::exists(&at("a")));
        copytree(&at("d"), &at("e")).unwrap();
        assert!(paths::is_file(&at("e/a")));
        let again = copytree(&at("d"), &at("e")).unwrap_err();
        assert!(is_os_error(&again), "{again}");
    }
}
