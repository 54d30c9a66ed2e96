//! Metadata of paths.

use super::super::declare::Result;
use super::super::{Call, python};
use super::os;
use super::paths::{self, expanduser};
use super::sums;
use super::users;
use halite_wire::map;
use halite_wire::{Map, Value};
use nix::sys::stat::{major, minor};
use nix::unistd::AccessFlags;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The fields of `file.stats`.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Octal mode like `0644`.
    pub mode: String,
    /// The requested hash.
    pub sum: Option<String>,
    meta: Metadata,
    path: String,
    follow_symlinks: bool,
}

impl Stats {
    /// Reads the metadata of a path; a dangling link is read itself.
    ///
    /// # Errors
    /// `CommandExecutionError`: it does not exist.
    pub fn read(path: &str, follow_symlinks: bool) -> Result<Stats> {
        let path = expanduser(path);
        let found = if follow_symlinks && paths::exists(&path) {
            fs::metadata(&path)
        } else {
            fs::symlink_metadata(&path)
        };
        match found {
            Ok(meta) => Ok(Stats::of(meta, path, follow_symlinks)),
            Err(_) => os::command(format!("Path not found: {path}")),
        }
    }

    /// From metadata of a path.
    pub fn of(meta: Metadata, path: String, follow_symlinks: bool) -> Stats {
        Stats {
            uid: meta.uid(),
            gid: meta.gid(),
            mode: format!("{:04o}", meta.mode() & 0o7777),
            sum: None,
            meta,
            path,
            follow_symlinks,
        }
    }

    /// Whether it is a link itself.
    pub fn is_link(&self) -> bool {
        self.meta.is_symlink()
    }

    /// Like [`Stats::read`], with a hash of the content.
    ///
    /// # Errors
    /// As there, or the file is unreadable or the hash type unknown.
    pub fn with_hash(path: &str, follow_symlinks: bool, hash_type: &str) -> Result<Stats> {
        let mut stats = Stats::read(path, follow_symlinks)?;
        if !hash_type.is_empty() {
            stats.sum = Some(sums::get_hash(&expanduser(path), hash_type)?);
        }
        Ok(stats)
    }

    /// Owner's name, or the id.
    pub fn user(&self) -> Value {
        users::uid_to_user(self.uid)
    }

    /// Group's name, or the id.
    pub fn group(&self) -> Value {
        users::gid_to_group(self.gid)
    }

    /// Whether this is the owner, given by name or id.
    pub fn is_user(&self, user: &Value) -> bool {
        user.as_int() == Some(i64::from(self.uid)) || *user == self.user()
    }

    /// Whether this is the group, given by name or id.
    pub fn is_group(&self, group: &Value) -> bool {
        group.as_int() == Some(i64::from(self.gid)) || *group == self.group()
    }

    fn target(&self) -> String {
        if self.follow_symlinks {
            paths::realpath(&self.path)
        } else {
            paths::abspath(&self.path)
        }
    }

    fn kind(&self) -> &'static str {
        let kind = self.meta.file_type();
        match () {
            () if kind.is_dir() => "dir",
            () if kind.is_char_device() => "char",
            () if kind.is_block_device() => "block",
            () if kind.is_symlink() => "link",
            () if kind.is_fifo() => "pipe",
            () if kind.is_socket() => "socket",
            () => "file",
        }
    }

    fn map(&self) -> Map {
        let m = &self.meta;
        let mut out = map! {
            "inode" => number(m.ino()), "uid" => self.uid, "gid" => self.gid,
            "group" => self.group(), "user" => self.user(),
            "atime" => time(m.atime(), m.atime_nsec()),
            "mtime" => time(m.mtime(), m.mtime_nsec()),
            "ctime" => time(m.ctime(), m.ctime_nsec()),
            "size" => number(m.size()), "mode" => self.mode.as_str(),
        };
        if let Some(sum) = &self.sum {
            out.set("sum", sum.as_str());
        }
        out.set("type", self.kind());
        out.set("target", self.target());
        out
    }
}

fn number(n: u64) -> Value {
    i64::try_from(n).map_or(Value::UInt(n), Value::Int)
}

/// Seconds as Python's float.
pub fn time(seconds: i64, nanoseconds: i64) -> f64 {
    seconds as f64 + 1e-9 * nanoseconds as f64
}

fn path(call: &Call<'_>) -> String {
    call.text("path").unwrap_or_default()
}

pub fn stats(call: &mut Call<'_>) -> Result {
    let hash = call.text("hash_type").unwrap_or_default();
    let found = Stats::with_hash(&path(call), call.flag("follow_symlinks"), &hash)?;
    Ok(found.map().into())
}

fn stat_arg(call: &Call<'_>) -> Result<Stats> {
    Stats::read(&path(call), call.flag("follow_symlinks"))
}

pub fn get_uid(call: &mut Call<'_>) -> Result {
    Ok(stat_arg(call)?.uid.into())
}

pub fn get_gid(call: &mut Call<'_>) -> Result {
    Ok(stat_arg(call)?.gid.into())
}

pub fn get_user(call: &mut Call<'_>) -> Result {
    Ok(stat_arg(call)?.user())
}

pub fn get_group(call: &mut Call<'_>) -> Result {
    Ok(stat_arg(call)?.group())
}

pub fn get_mode(call: &mut Call<'_>) -> Result {
    Ok(stat_arg(call)?.mode.into())
}

pub fn lstat(call: &mut Call<'_>) -> Result {
    let path = expanduser(&path(call));
    if !paths::is_abs(&path) {
        return os::invocation("Path to file must be absolute.");
    }
    let Ok(m) = fs::symlink_metadata(&path) else {
        return Ok(Map::new().into());
    };
    Ok(map! {
        "st_atime" => time(m.atime(), m.atime_nsec()),
        "st_ctime" => time(m.ctime(), m.ctime_nsec()),
        "st_gid" => m.gid(), "st_mode" => m.mode(),
        "st_mtime" => time(m.mtime(), m.mtime_nsec()),
        "st_nlink" => number(m.nlink()), "st_size" => number(m.size()), "st_uid" => m.uid(),
    }
    .into())
}

pub fn statvfs(call: &mut Call<'_>) -> Result {
    let path = expanduser(&path(call));
    if !paths::is_abs(&path) {
        return os::invocation("File path must be absolute.");
    }
    let Ok(v) = nix::sys::statvfs::statvfs(path.as_str()) else {
        return os::command(format!("Could not statvfs '{path}'"));
    };
    Ok(map! {
        "f_bavail" => number(v.blocks_available()), "f_bfree" => number(v.blocks_free()),
        "f_blocks" => number(v.blocks()), "f_bsize" => number(v.block_size()),
        "f_favail" => number(v.files_available()), "f_ffree" => number(v.files_free()),
        "f_files" => number(v.files()), "f_flag" => number(v.flags().bits()),
        "f_frsize" => number(v.fragment_size()), "f_namemax" => number(v.name_max()),
    }
    .into())
}

pub fn access(call: &mut Call<'_>) -> Result {
    let path = expanduser(&path(call));
    if !paths::is_abs(&path) {
        return os::invocation("Path to link must be absolute.");
    }
    let flags = match call.arg("mode") {
        Value::Str(letter) => match letter.as_str() {
            "f" => Some(AccessFlags::F_OK),
            "r" => Some(AccessFlags::R_OK),
            "w" => Some(AccessFlags::W_OK),
            "x" => Some(AccessFlags::X_OK),
            _ => None,
        },
        other => match python::int(other) {
            Ok(0) => Some(AccessFlags::F_OK),
            Ok(4) => Some(AccessFlags::R_OK),
            Ok(2) => Some(AccessFlags::W_OK),
            Ok(1) => Some(AccessFlags::X_OK),
            _ => None,
        },
    };
    let Some(flags) = flags else {
        return os::invocation("Invalid mode specified.");
    };
    Ok(nix::unistd::access(path.as_str(), flags).is_ok().into())
}

pub fn directory_exists(call: &mut Call<'_>) -> Result {
    Ok(paths::is_dir(&expanduser(&path(call))).into())
}

pub fn file_exists(call: &mut Call<'_>) -> Result {
    Ok(paths::is_file(&expanduser(&path(call))).into())
}

pub fn path_exists_glob(call: &mut Call<'_>) -> Result {
    Ok((!paths::glob(&expanduser(&path(call))).is_empty()).into())
}

pub fn is_hardlink(call: &mut Call<'_>) -> Result {
    let path = expanduser(&path(call));
    if !paths::is_abs(&path) {
        return os::invocation("Path to file must be absolute.");
    }
    Ok(match fs::symlink_metadata(&path) {
        Ok(meta) => (meta.nlink() > 1).into(),
        Err(_) => Map::new().into(),
    })
}

/// Whether a node of this type exists.
fn is_node(call: &Call<'_>, is: impl Fn(&fs::FileType) -> bool) -> Result {
    let path = expanduser(&call.text("name").unwrap_or_default());
    match fs::metadata(&path) {
        Ok(meta) => Ok(is(&meta.file_type()).into()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false.into()),
        Err(e) => Err(os::fault(&e, &path)),
    }
}

pub fn is_chrdev(call: &mut Call<'_>) -> Result {
    is_node(call, FileTypeExt::is_char_device)
}

pub fn is_blkdev(call: &mut Call<'_>) -> Result {
    is_node(call, FileTypeExt::is_block_device)
}

pub fn is_fifo(call: &mut Call<'_>) -> Result {
    is_node(call, FileTypeExt::is_fifo)
}

pub fn get_devmm(call: &mut Call<'_>) -> Result {
    let device = is_node(call, |kind| kind.is_char_device() || kind.is_block_device())?;
    let path = expanduser(&call.text("name").unwrap_or_default());
    let rdev = fs::metadata(path).map_or(0, |meta| meta.rdev());
    Ok(if device.truthy() {
        Value::Array(vec![number(major(rdev)), number(minor(rdev))])
    } else {
        Value::Array(vec![0.into(), 0.into()])
    })
}

/// The size of a file, or of all files below a directory. Hard links count once.
pub fn diskusage(call: &mut Call<'_>) -> Result {
    let path = path(call);
    if paths::is_file(&path) {
        return Ok(fs::metadata(&path).map_or(0.into(), |m| number(m.size())));
    }
    let mut seen = std::collections::HashSet::new();
    let mut total = 0;
    let mut open = vec![path];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let inner = entry.path();
            let Ok(meta) = fs::metadata(&inner) else {
                continue;
            };
            if !meta.is_dir() {
                total += if seen.insert(meta.ino()) {
                    meta.size()
                } else {
                    0
                };
            } else if !inner.is_symlink() {
                open.push(inner.to_string_lossy().into_owned());
            }
        }
    }
    Ok(number(total))
}
