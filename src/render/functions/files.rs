//! `file.*`, `cp.get_file_str`, `environ.*`, `dnsutil.*`, `network.*`: read-only functions about the master's host
//! (`salt/modules/file.py`, `environ.py`, `dnsutil.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, text_of};
use halite_wire::Value;
use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Bytes that a template can read from one file.
const MAX_READ: u64 = 16 << 20;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "file.file_exists",
        params: &["path"],
        required: 1,
        run: Run::Data(|_, c| Ok(path(c).is_file().into())),
    },
    Function {
        name: "file.directory_exists",
        params: &["path"],
        required: 1,
        run: Run::Data(|_, c| Ok(path(c).is_dir().into())),
    },
    Function {
        name: "file.path_exists_glob",
        params: &["path"],
        required: 1,
        run: Run::Data(|_, c| Ok(path(c).exists().into())),
    },
    Function {
        name: "file.is_link",
        params: &["path"],
        required: 1,
        run: Run::Data(|_, c| Ok(path(c).is_symlink().into())),
    },
    Function {
        name: "file.read",
        params: &["path", "binary"],
        required: 1,
        run: Run::Data(read),
    },
    Function {
        name: "file.readdir",
        params: &["path"],
        required: 1,
        run: Run::Data(readdir),
    },
    Function {
        name: "file.basename",
        params: &["path"],
        required: 1,
        run: Run::Data(|_, c| Ok(base(&c.text("path")).into())),
    },
    Function {
        name: "file.dirname",
        params: &["path"],
        required: 1,
        run: Run::Data(|_, c| Ok(dir(&c.text("path")).into())),
    },
    Function {
        name: "file.join",
        params: &["*"],
        required: 0,
        run: Run::Data(join),
    },
    Function {
        name: "cp.get_file_str",
        params: &["path"],
        required: 1,
        run: Run::Data(file_str),
    },
    Function {
        name: "environ.get",
        params: &["key", "default"],
        required: 1,
        run: Run::Data(environ),
    },
    Function {
        name: "environ.has_value",
        params: &["key", "value"],
        required: 1,
        run: Run::Data(environ_has),
    },
    Function {
        name: "dnsutil.A",
        params: &["host", "nameserver"],
        required: 1,
        run: Run::Data(|_, c| lookup(c, IpAddr::is_ipv4)),
    },
    Function {
        name: "dnsutil.AAAA",
        params: &["host", "nameserver"],
        required: 1,
        run: Run::Data(|_, c| lookup(c, IpAddr::is_ipv6)),
    },
];

fn path(call: &Call) -> PathBuf {
    let text = call.text("path");
    match text.strip_prefix("~/") {
        Some(rest) => Path::new(&std::env::var("HOME").unwrap_or_default()).join(rest),
        None => text.into(),
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn dir(path: &str) -> &str {
    match path.rsplit_once('/') {
        None => "",
        Some((head, _)) => match head.trim_end_matches('/') {
            "" => &path[..1],
            head => head,
        },
    }
}

/// `os.path.join`: an absolute part discards those before it.
fn join(_: &FunctionContext, call: &Call) -> CallResult {
    let mut out = String::new();
    for part in call.rest.iter().map(text_of) {
        if part.starts_with('/') {
            out = part;
            continue;
        }
        if !out.is_empty() && !out.ends_with('/') {
            out.push('/');
        }
        out += &part;
    }
    Ok(out.into())
}

fn io_fault(path: &Path, e: &std::io::Error) -> CallError {
    CallError::Other(format!("{}: {e}", path.display()))
}

fn read(_: &FunctionContext, call: &Call) -> CallResult {
    contents(&path(call))
}

/// `salt/modules/cp.py get_file_str`: false for a file that does not exist.
fn file_str(_: &FunctionContext, call: &Call) -> CallResult {
    let given = call.text("path");
    let path = Path::new(given.strip_prefix("file://").unwrap_or(&given));
    if !path.is_absolute() {
        return Err(CallError::Function(format!(
            "{given:?}: cp.get_file_str reads only files of this host here, by their absolute path"
        )));
    }
    if !path.is_file() {
        return Ok(false.into());
    }
    contents(path)
}

/// A file as text, or as bytes if it is none.
fn contents(path: &Path) -> CallResult {
    let file = std::fs::File::open(path).map_err(|e| io_fault(path, &e))?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(CallError::Other(format!(
            "{} is not a regular file",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_READ + 1).read_to_end(&mut bytes);
    if read.map_err(|e| io_fault(path, &e))? as u64 > MAX_READ {
        Err(CallError::Other(format!(
            "{} is longer than {MAX_READ} bytes",
            path.display()
        )))
    } else {
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(e) => Value::Bytes(e.into_bytes()),
        })
    }
}

fn readdir(_: &FunctionContext, call: &Call) -> CallResult {
    let path = path(call);
    let entries = std::fs::read_dir(&path)
        .map_err(|_| CallError::Function("A valid directory was not specified.".into()))?;
    let names = entries
        .flatten()
        .map(|e| Value::from(e.file_name().to_string_lossy().as_ref()));
    Ok(Value::Array(
        [".".into(), "..".into()].into_iter().chain(names).collect(),
    ))
}

fn environ(_: &FunctionContext, call: &Call) -> CallResult {
    let found = std::env::var(call.text("key")).ok().map(Value::from);
    Ok(found
        .or_else(|| call.get("default").cloned())
        .unwrap_or_else(|| "".into()))
}

fn environ_has(_: &FunctionContext, call: &Call) -> CallResult {
    let found = std::env::var(call.text("key")).ok();
    Ok(match call.some("value") {
        None => found.is_some().into(),
        Some(value) => (found == Some(text_of(value))).into(),
    })
}

/// Addresses from the system's resolver, which has its own timeouts.
fn lookup(call: &Call, kind: fn(&IpAddr) -> bool) -> CallResult {
    if call.some("nameserver").is_some() {
        return Err(CallError::Function(
            "nameserver is not available in templates of this master".into(),
        ));
    }
    let host = call.text("host");
    let Ok(found) = (host.as_str(), 0).to_socket_addrs() else {
        return Ok(format!("Looking up IP address for {host} failed").into());
    };
    let mut ips: Vec<String> = found
        .map(|a| a.ip())
        .filter(kind)
        .map(|ip| ip.to_string())
        .collect();
    ips.dedup();
    Ok(ips.into())
}
