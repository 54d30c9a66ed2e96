//! Device nodes and pipes.

use super::super::declare::Result;
use super::super::{Call, python};
use super::os;
use super::paths::expanduser;
use super::perms::{check_perms, is_test};
use super::tree::{self, NewNodeArgs};
use halite_sys::held_path::{HeldPath, LastLink};
use halite_wire::map;
use halite_wire::{Map, Value};
use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, makedev, mknod as make_node};
use nix::unistd::mkfifo;

/// A type of node.
#[derive(Clone, Copy, PartialEq)]
enum NodeKind {
    Character,
    Block,
    Pipe,
}

fn make(call: &mut Call<'_>, kind: NodeKind) -> Result {
    let name = expanduser(&call.text("name").unwrap_or_default());
    let new = NewNodeArgs::from_call(call);
    let mut ret =
        map! {"name" => name.as_str(), "changes" => Map::new(), "comment" => "", "result" => false};
    let made = match kind {
        NodeKind::Character => format!("Character device {name} created."),
        NodeKind::Block => format!("Block device {name} created."),
        NodeKind::Pipe => format!("Fifo pipe {name} created."),
    };
    if is_test(call) {
        ret.set("changes", map! {"new" => made});
        ret.set("result", Value::Nil);
    } else {
        let text = python::str(&new.mode);
        let digits = text.trim_start_matches(['0', 'O', 'o']);
        let Some(bits) = os::octal(digits) else {
            return Err(super::CallError::raised(
                "ValueError",
                format!(
                    "invalid literal for int() with base 8: {}",
                    python::repr(&digits.into())
                ),
            ));
        };
        let mode = Mode::from_bits_truncate(bits);
        let number = |name: &str| {
            python::int(call.arg(name)).map(|n| u64::try_from(n).unwrap_or(u64::from(u32::MAX)))
        };
        // Python names no path here.
        let held =
            HeldPath::of(name.as_ref(), LastLink::Keep).map_err(|e| match e.raw_os_error() {
                Some(_) => os::bare_fault(&e),
                None => os::fault(&e, &name),
            })?;
        let done = match kind {
            NodeKind::Pipe => mkfifo(held.path(), mode),
            NodeKind::Character | NodeKind::Block => {
                let flag = match kind {
                    NodeKind::Character => SFlag::S_IFCHR,
                    _ => SFlag::S_IFBLK,
                };
                let device = makedev(number("major")?, number("minor")?);
                make_node(held.path(), flag, mode, device)
            }
        };
        match done {
            Ok(()) => {
                ret.set("changes", map! {"new" => made});
                ret.set("result", true);
            }
            Err(Errno::EEXIST) => ret.set(
                "comment",
                format!("File {name} exists and cannot be overwritten"),
            ),
            Err(e) => return Err(os::bare_fault(&std::io::Error::from_raw_os_error(e as i32))),
        }
    }
    check_perms(call, &name, None, &new.perms()?)?;
    Ok(ret.into())
}

pub fn mknod_chrdev(call: &mut Call<'_>) -> Result {
    make(call, NodeKind::Character)
}

pub fn mknod_blkdev(call: &mut Call<'_>) -> Result {
    make(call, NodeKind::Block)
}

pub fn mknod_fifo(call: &mut Call<'_>) -> Result {
    make(call, NodeKind::Pipe)
}

pub fn mknod(call: &mut Call<'_>) -> Result {
    let name = call.text("name").unwrap_or_default();
    let new = NewNodeArgs {
        mode: Value::Nil,
        ..NewNodeArgs::from_call(call)
    };
    tree::makedirs(call, &name, &new)?;
    let kind = match call.arg("ntype").as_str() {
        Some("c") => NodeKind::Character,
        Some("b") => NodeKind::Block,
        Some("p") => NodeKind::Pipe,
        _ => {
            return os::invocation(format!(
                "Node type unavailable: '{}'. Available node types are character ('c'), block ('b'), and pipe \
                 ('p').",
                python::str(call.arg("ntype"))
            ));
        }
    };
    make(call, kind)
}
