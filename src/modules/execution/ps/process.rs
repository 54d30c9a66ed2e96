//! One process as seen by psutil, from `/proc/PID`.

use super::host::{self, ticks};
use super::sockets;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why process data are not available.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ProcessError {
    /// The process does not exist, or no longer.
    Gone,
    /// No permission, or a zombie without these data.
    Denied,
}

impl From<io::Error> for ProcessError {
    fn from(e: io::Error) -> ProcessError {
        match e.kind() {
            ErrorKind::PermissionDenied => ProcessError::Denied,
            _ => ProcessError::Gone,
        }
    }
}

type ProcessResult<T> = Result<T, ProcessError>;

fn page_size() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let size = size.ok().flatten().and_then(|n| u64::try_from(n).ok());
    size.unwrap_or(4096)
}

/// Sorted process ids (`psutil.pids`).
pub(super) fn pids() -> Vec<i32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<i32> = names
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Its id.
    pub pid: i32,
    name: String,
    /// The fields of `/proc/PID/stat` after the name.
    stat: Vec<String>,
}

impl Process {
    /// Reads a process.
    ///
    /// # Errors
    /// The process does not exist, or its data cannot be read.
    pub fn new(pid: i32) -> ProcessResult<Process> {
        let bytes = fs::read(format!("/proc/{pid}/stat"))?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, tail) = text.rsplit_once(')').ok_or(ProcessError::Gone)?;
        let name = head.split_once('(').ok_or(ProcessError::Gone)?.1;
        Ok(Process {
            pid,
            name: name.to_owned(),
            stat: tail.split_whitespace().map(str::to_owned).collect(),
        })
    }

    fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.pid))
    }

    fn read(&self, file: &str) -> ProcessResult<String> {
        let bytes = fs::read(self.path(file))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn field(&self, at: usize) -> i64 {
        self.stat.get(at).and_then(|w| w.parse().ok()).unwrap_or(0)
    }

    fn zombie(&self) -> bool {
        self.stat.first().is_some_and(|s| s == "Z")
    }

    /// `Process.status()`.
    pub fn status(&self) -> &'static str {
        match self.stat.first().map_or("", String::as_str) {
            "R" => "running",
            "S" => "sleeping",
            "D" => "disk-sleep",
            "T" => "stopped",
            "t" => "tracing-stop",
            "Z" => "zombie",
            "X" | "x" => "dead",
            "K" => "wake-kill",
            "W" => "waking",
            "I" => "idle",
            "P" => "parked",
            _ => "?",
        }
    }

    /// `Process.cmdline()`.
    pub fn cmdline(&self) -> ProcessResult<Vec<String>> {
        let text = self.read("cmdline")?;
        if text.is_empty() {
            return if self.zombie() {
                Err(ProcessError::Denied)
            } else {
                Ok(Vec::new())
            };
        }
        // Processes that set their own title separate words by spaces.
        let separator = if text.ends_with('\0') { '\0' } else { ' ' };
        let body = text.strip_suffix(separator).unwrap_or(&text);
        let words: Vec<String> = body.split(separator).map(str::to_owned).collect();
        if separator == '\0' && words.len() == 1 && body.contains(' ') {
            return Ok(body.split(' ').map(str::to_owned).collect());
        }
        Ok(words)
    }

    /// `Process.name()`: the kernel keeps fifteen characters; the command line may have the rest.
    pub fn name(&self) -> String {
        if self.name.chars().count() < 15 {
            return self.name.clone();
        }
        let cmdline = self.cmdline().unwrap_or_default();
        let first = cmdline.first().map_or("", String::as_str);
        let base = first.rsplit('/').next().unwrap_or_default();
        if base.starts_with(&self.name) {
            base.to_owned()
        } else {
            self.name.clone()
        }
    }

    /// `Process.create_time()`.
    pub fn create_time(&self) -> f64 {
        self.field(19) as f64 / ticks() + host::boot_time()
    }

    /// `Process.cpu_times()`.
    pub fn cpu_times(&self) -> Map {
        let seconds = |at| Value::Float(self.field(at) as f64 / ticks());
        map! {
            "user" => seconds(11), "system" => seconds(12), "children_user" => seconds(13),
            "children_system" => seconds(14), "iowait" => seconds(39),
        }
    }

    /// User and system time in seconds.
    pub fn busy(&self) -> f64 {
        (self.field(11) as f64 / ticks()) + (self.field(12) as f64 / ticks())
    }

    /// Distinguishes this process from a later one with the same id.
    pub fn start_time(&self) -> i64 {
        self.field(19)
    }

    /// `Process.memory_info()`.
    pub fn memory_info(&self) -> ProcessResult<Map> {
        let text = self.read("statm")?;
        let pages: Vec<u64> = text
            .split_whitespace()
            .filter_map(|w| w.parse().ok())
            .collect();
        let at = |i: usize| pages.get(i).copied().unwrap_or(0) * page_size();
        Ok(map! {
            "rss" => at(1), "vms" => at(0), "shared" => at(2), "text" => at(3),
            "lib" => at(4), "data" => at(5), "dirty" => at(6),
        })
    }

    fn memory_full_info(&self) -> ProcessResult<Value> {
        let mut all = values(&self.memory_info()?);
        let (mut uss, mut pss, mut swap) = (0_u64, 0_u64, 0_u64);
        let rollup = match self.read("smaps_rollup") {
            Ok(text) => text,
            Err(ProcessError::Gone) => self.read("smaps")?,
            Err(denied) => return Err(denied),
        };
        for line in rollup.lines() {
            let Some((name, rest)) = line.split_once(':') else {
                continue;
            };
            let kib = rest.split_whitespace().next().and_then(|n| n.parse().ok());
            let bytes = kib.unwrap_or(0_u64) * 1024;
            match name {
                "Pss" => pss += bytes,
                "Swap" => swap += bytes,
                name if name.starts_with("Private_") => uss += bytes,
                _ => {}
            }
        }
        all.extend([uss.into(), pss.into(), swap.into()]);
        Ok(Value::Array(all))
    }

    /// Memory regions, added up by file.
    fn memory_maps(&self) -> ProcessResult<Value> {
        const FIELDS: [&str; 10] = [
            "Rss",
            "Size",
            "Pss",
            "Shared_Clean",
            "Shared_Dirty",
            "Private_Clean",
            "Private_Dirty",
            "Referenced",
            "Anonymous",
            "Swap",
        ];
        let text = self.read("smaps")?;
        if text.trim().is_empty() && self.zombie() {
            return Err(ProcessError::Denied);
        }
        let mut all: Vec<(String, [u64; 10])> = Vec::new();
        let mut at = 0;
        for line in text.lines() {
            let first = line.split_whitespace().next().unwrap_or_default();
            let Some(name) = first.strip_suffix(':') else {
                let path = region(line);
                at = all.iter().position(|(p, _)| *p == path).unwrap_or_else(|| {
                    all.push((path, [0; 10]));
                    all.len() - 1
                });
                continue;
            };
            let field = FIELDS.iter().position(|f| *f == name);
            if let (Some(field), Some((_, sums))) = (field, all.get_mut(at)) {
                let kib = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
                sums[field] += kib.unwrap_or(0_u64) * 1024;
            }
        }
        let maps = all.into_iter().map(|(path, sums)| {
            let mut list: Vec<Value> = vec![path.into()];
            list.extend(sums.into_iter().map(Value::from));
            Value::Array(list)
        });
        Ok(maps.collect::<Vec<_>>().into())
    }

    fn status_line(&self, name: &str) -> ProcessResult<Vec<String>> {
        let text = self.read("status")?;
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        Ok(line
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect())
    }

    fn ids(&self, name: &str) -> ProcessResult<Value> {
        let ids = self.status_line(name)?;
        let ids = ids.iter().take(3).map(|n| n.parse::<i64>().unwrap_or(0));
        Ok(ids.map(Value::Int).collect::<Vec<_>>().into())
    }

    /// `Process.username()`: the name of the real user id, or the id.
    pub fn username(&self) -> ProcessResult<String> {
        let uid = self.status_line("Uid")?.into_iter().next();
        let uid: u32 = uid.and_then(|u| u.parse().ok()).ok_or(ProcessError::Gone)?;
        match nix::unistd::User::from_uid(uid.into()) {
            Ok(Some(user)) => Ok(user.name),
            _ => Ok(uid.to_string()),
        }
    }

    fn link(&self, file: &str) -> ProcessResult<String> {
        match fs::read_link(self.path(file)) {
            Ok(path) => {
                let text = path.to_string_lossy().into_owned();
                match text.strip_suffix(" (deleted)") {
                    Some(bare) if !path.exists() => Ok(bare.to_owned()),
                    _ => Ok(text),
                }
            }
            Err(e) if e.kind() == ErrorKind::NotFound && !self.zombie() => Ok(String::new()),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(ProcessError::Denied),
            Err(e) => Err(e.into()),
        }
    }

    fn exe(&self) -> ProcessResult<String> {
        let exe = self.link("exe")?;
        if !exe.is_empty() {
            return Ok(exe);
        }
        let first = self.cmdline()?.into_iter().next().unwrap_or_default();
        let runs = first.starts_with('/') && super::super::which(&first).is_some();
        Ok(if runs { first } else { String::new() })
    }

    fn environ(&self) -> ProcessResult<Value> {
        let text = self.read("environ")?;
        let pairs = text.split('\0').take_while(|part| !part.is_empty());
        let map: Map = pairs
            .filter_map(|part| part.split_once('='))
            .filter(|(name, _)| !name.is_empty())
            .collect();
        Ok(map.into())
    }

    fn io_counters(&self) -> ProcessResult<Value> {
        let text = self.read("io")?;
        let pairs: HashMap<&str, &str> = text.lines().filter_map(|l| l.split_once(": ")).collect();
        let names = [
            "syscr",
            "syscw",
            "read_bytes",
            "write_bytes",
            "rchar",
            "wchar",
        ];
        let of = |name: &&str| pairs.get(*name).and_then(|v| v.parse::<i64>().ok());
        let numbers: Vec<Value> = names.iter().map(|n| of(n).unwrap_or(0).into()).collect();
        Ok(numbers.into())
    }

    fn affinity(&self) -> ProcessResult<Value> {
        let list = self.status_line("Cpus_allowed_list")?.concat();
        let count = host::cpu_count();
        let mut cpus: Vec<Value> = Vec::new();
        for part in list.split(',').filter(|p| !p.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().unwrap_or(0), last.parse().unwrap_or(0_i64));
            cpus.extend((first..=last.min(count - 1)).map(Value::Int));
        }
        Ok(cpus.into())
    }

    fn switches(&self) -> ProcessResult<Value> {
        let of = |name| -> ProcessResult<Value> {
            let words = self.status_line(name)?;
            let number = words.first().and_then(|n| n.parse::<i64>().ok());
            Ok(number.unwrap_or(0).into())
        };
        let both = [
            of("voluntary_ctxt_switches")?,
            of("nonvoluntary_ctxt_switches")?,
        ];
        Ok(both.to_vec().into())
    }

    fn threads(&self) -> ProcessResult<Value> {
        let mut all: Vec<(String, Value)> = Vec::new();
        for entry in fs::read_dir(self.path("task"))?.flatten() {
            let Some(id) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let Ok(text) = fs::read_to_string(entry.path().join("stat")) else {
                continue;
            };
            let words: Vec<&str> = text
                .rsplit_once(')')
                .map_or("", |(_, tail)| tail)
                .split_whitespace()
                .collect();
            let seconds = |at: usize| {
                let number = words.get(at).and_then(|w| w.parse::<f64>().ok());
                Value::Float(number.unwrap_or(0.0) / ticks())
            };
            let number = id.parse::<i64>().unwrap_or(0).into();
            all.push((id, vec![number, seconds(11), seconds(12)].into()));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all.into_iter().map(|(_, v)| v).collect::<Vec<_>>().into())
    }

    /// Number and target of all open descriptors.
    fn descriptors(&self) -> ProcessResult<Vec<(i64, PathBuf)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.path("fd"))?.flatten() {
            let number = entry.file_name().to_str().and_then(|n| n.parse().ok());
            if let (Some(number), Ok(target)) = (number, fs::read_link(entry.path())) {
                all.push((number, target));
            }
        }
        Ok(all)
    }

    fn open_files(&self) -> ProcessResult<Value> {
        let mut all: Vec<Value> = Vec::new();
        for (number, path) in self.descriptors()? {
            if !path.is_absolute() || !path.is_file() {
                continue;
            }
            let Ok(info) = self.read(&format!("fdinfo/{number}")) else {
                continue;
            };
            let word = |line: usize| {
                let line = info.lines().nth(line).unwrap_or_default();
                line.split_whitespace().nth(1).unwrap_or("0").to_owned()
            };
            let position = word(0).parse::<i64>().unwrap_or(0);
            let flags = i64::from_str_radix(&word(1), 8).unwrap_or(0);
            all.push(Value::Array(vec![
                path.to_string_lossy().as_ref().into(),
                number.into(),
                position.into(),
                mode(flags).into(),
                flags.into(),
            ]));
        }
        Ok(all.into())
    }

    fn terminal(&self) -> Value {
        let number = self.field(4);
        let device = |path: &Path| fs::metadata(path).is_ok_and(|m| m.rdev() as i64 == number);
        let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten();
        let consoles = entries("/dev")
            .filter(|e| e.file_name().to_string_lossy().starts_with("tty"))
            .map(|e| e.path());
        let mut all = consoles.chain(entries("/dev/pts").map(|e| e.path()));
        let found = all.find(|path| device(path));
        found.map(|p| p.to_string_lossy().into_owned()).into()
    }

    /// One of [`ATTRIBUTES`] in the form of `Process.as_dict()`.
    ///
    /// # Errors
    /// The process ended, or access is denied.
    pub fn attribute(&self, name: &str) -> ProcessResult<Value> {
        Ok(match name {
            "cmdline" => self.cmdline()?.into(),
            "cpu_affinity" => self.affinity()?,
            "cpu_num" => self.field(36).into(),
            // CPU usage since the last call on the same object; this is the first.
            "cpu_percent" => Value::Float(0.0),
            "cpu_times" => values(&self.cpu_times()).into(),
            "create_time" => self.create_time().into(),
            "cwd" => self.link("cwd")?.into(),
            "environ" => self.environ()?,
            "exe" => self.exe()?.into(),
            "gids" => self.ids("Gid")?,
            "io_counters" => self.io_counters()?,
            "ionice" => match halite_sys::process::io_priority(self.pid) {
                Some((class, level)) => vec![Value::Int(class), level.into()].into(),
                None => return Err(ProcessError::Gone),
            },
            "memory_full_info" => self.memory_full_info()?,
            "memory_info" => values(&self.memory_info()?).into(),
            "memory_maps" => self.memory_maps()?,
            "memory_percent" => {
                let rss = self.memory_info()?.int("rss").unwrap_or(0) as f64;
                Value::Float(rss / host::total_memory() as f64 * 100.0)
            }
            "name" => self.name().into(),
            "net_connections" => sockets::connections(&self.descriptors()?).into(),
            "nice" => self.field(16).into(),
            "num_ctx_switches" => self.switches()?,
            "num_fds" => fs::read_dir(self.path("fd"))?.count().into(),
            "num_threads" => self.field(17).into(),
            "open_files" => self.open_files()?,
            "pid" => self.pid.into(),
            "ppid" => self.field(1).into(),
            "status" => self.status().into(),
            "terminal" => self.terminal(),
            "threads" => self.threads()?,
            "uids" => self.ids("Uid")?,
            "username" => self.username()?.into(),
            _ => Value::Nil,
        })
    }
}

/// The attributes of `Process.as_dict()`.
pub(super) const ATTRIBUTES: &[&str] = &[
    "cmdline",
    "cpu_affinity",
    "cpu_num",
    "cpu_percent",
    "cpu_times",
    "create_time",
    "cwd",
    "environ",
    "exe",
    "gids",
    "io_counters",
    "ionice",
    "memory_full_info",
    "memory_info",
    "memory_maps",
    "memory_percent",
    "name",
    "net_connections",
    "nice",
    "num_ctx_switches",
    "num_fds",
    "num_threads",
    "open_files",
    "pid",
    "ppid",
    "status",
    "terminal",
    "threads",
    "uids",
    "username",
];

fn values(map: &Map) -> Vec<Value> {
    map.iter().map(|(_, v)| v.clone()).collect()
}

/// The path of a memory region: the sixth column.
fn region(line: &str) -> String {
    let mut rest = line;
    for _ in 0..5 {
        rest = rest.trim_start();
        rest = rest.find(' ').map_or("", |at| &rest[at..]);
    }
    match rest.trim() {
        "" => "[anon]".to_owned(),
        path => match path.strip_suffix(" (deleted)") {
            Some(bare) if !Path::new(path).exists() => bare.to_owned(),
            _ => path.to_owned(),
        },
    }
}

/// Open flags as the mode of a Python file.
fn mode(flags: i64) -> String {
    use nix::libc::{O_ACCMODE, O_APPEND, O_RDWR, O_WRONLY};
    let access = flags & i64::from(O_ACCMODE);
    let append = flags & i64::from(O_APPEND) != 0;
    let text = match access {
        a if a == i64::from(O_WRONLY) => {
            if append {
                "a"
            } else {
                "w"
            }
        }
        a if a == i64::from(O_RDWR) => {
            if append {
                "a+"
            } else {
                "r+"
            }
        }
        _ => "r",
    };
    text.to_owned()
}
