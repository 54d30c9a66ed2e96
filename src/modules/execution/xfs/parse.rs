//! Output of the XFS programs.

use super::super::CallError;
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::{Map, Value};

/// The pairs of a line of `xfs_info`; a section without value has three stars.
fn pairs(line: &str) -> Vec<Vec<String>> {
    let line = match line.strip_prefix('=') {
        Some(rest) => rest.trim(),
        None => line,
    };
    let line = line.replace(" = ", "=*** ").replace(" =", "=");
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match words.last_mut() {
            Some(last) if !word.contains('=') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let split = |word: String| word.split('=').map(str::to_owned).collect();
    words.into_iter().map(split).collect()
}

/// The sections of a file system's geometry.
pub(super) fn info(text: &str) -> Result<Map> {
    let wrong = || {
        let text = "dictionary update sequence element has the wrong length; 2 is required";
        CallError::raised("ValueError", text)
    };
    let mut out: Vec<(String, Map)> = Vec::new();
    for line in text.split('\n') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = words.join(" ").replace(", ", " ");
        if !line.contains('=') {
            continue;
        }
        let mut pairs = pairs(&line);
        if !line.starts_with('=') {
            let head = pairs.remove(0);
            let [name, value, ..] = head.as_slice() else {
                return Err(wrong());
            };
            let section = if value == "***" { name } else { value };
            let entry = map! {"section" => section};
            match out.iter().position(|(n, _)| n == name) {
                Some(at) => {
                    let slot = out.remove(at);
                    out.push((slot.0, entry));
                }
                None => out.push((name.clone(), entry)),
            }
        }
        let Some((_, section)) = out.last_mut() else {
            return Err(CallError::Type(
                "'NoneType' object is not subscriptable".into(),
            ));
        };
        for pair in pairs {
            let [key, value] = pair.as_slice() else {
                return Err(wrong());
            };
            section.set(key, value);
        }
    }
    Ok(out.into_iter().collect())
}

/// Parses the output of `xfsdump`.
pub(super) fn dumped(text: &str) -> Map {
    let mut out = Map::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let line = line.strip_prefix("xfsdump: ").unwrap_or(line);
        if line.starts_with("session id:") {
            out.set("Session ID", line.rsplit(' ').next().unwrap_or_default());
        } else if line.starts_with("session label:") {
            let label = line.strip_prefix("session label: ").unwrap_or(line);
            out.set("Session label", label);
        } else if let Some(rest) = line.strip_prefix("media file size") {
            out.set("Media size", rest.trim_start());
        } else if let Some(rest) = line.strip_prefix("dump complete:") {
            out.set("Dump complete", rest.trim_start());
        } else if let Some(rest) = line.strip_prefix("Dump Status:") {
            out.set("Status", rest.trim_start());
        }
    }
    out
}

/// Parses the tree of `xfsrestore -I`: the depth is the number of tabs; a name without value opens a branch. The last
/// line is the status.
pub(super) fn inventory(text: &str) -> Map {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let Some((status, lines)) = lines.split_last() else {
        return Map::new();
    };
    if lines.is_empty() && status.to_lowercase().contains("restore status") {
        return map! {"restore_status" => *status};
    }
    // Open branches by name, root first.
    let mut open: Vec<(String, Map)> = vec![(String::new(), Map::new())];
    let close = |open: &mut Vec<(String, Map)>| {
        if open.len() > 1
            && let Some((name, map)) = open.pop()
            && let Some((_, above)) = open.last_mut()
        {
            above.set(name, map);
        }
    };
    let mut depth = 0;
    for line in lines {
        let (name, value) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
        if value.trim().is_empty() {
            let own = line.matches('\t').count();
            if depth > own {
                (0..depth).for_each(|_| close(&mut open));
            }
            depth = own;
            open.push((name.to_owned(), Map::new()));
        } else if let Some((_, map)) = open.last_mut() {
            map.set(name.trim(), value.trim());
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    let mut root = open.pop().map(|(_, map)| map).unwrap_or_default();
    root.set("restore_status", *status);
    root
}

/// The dump removed by `xfsinvutil`: the block between two lines of dashes.
pub(super) fn pruned(text: &str) -> Map {
    let lines = text.lines().filter(|l| !l.is_empty()).map(str::trim);
    let block = lines.skip_while(|l| !l.starts_with('-')).skip(1);
    let block = block.take_while(|l| !l.starts_with('-'));
    let mut out = Map::new();
    for (key, value) in block.skip(1).filter_map(|l| l.split_once(':')) {
        out.set(key.trim().to_lowercase().replace(' ', "_"), value.trim());
    }
    out
}

/// The XFS devices in `blkid -o export`, with their mounts.
pub(super) fn devices(text: &str, mounts: &Map) -> Map {
    let mut out = Map::new();
    for block in text.split("\n\n").filter(|b| !b.trim().is_empty()) {
        let mut device = Map::new();
        for (key, value) in block.trim().lines().filter_map(|l| l.split_once('=')) {
            device.set(key.to_lowercase(), value);
        }
        if device.remove("type") != Some("xfs".into()) {
            continue;
        }
        if !device.contains("label") {
            device.set("label", Value::Nil);
        }
        if let Some(Value::Str(name)) = device.remove("devname") {
            out.set(name, device);
        }
    }
    for (name, mount) in mounts.iter() {
        let known = name.as_str().and_then(|name| out.get_mut(name));
        if let (Some(Value::Map(device)), Some(mount)) = (known, mount.as_map()) {
            for (key, value) in mount.iter() {
                device.set(key.as_str().unwrap_or_default(), value.clone());
            }
        }
    }
    out
}

/// The table of `xfs_estimate -v`.
pub(super) fn estimate(text: &str) -> Result<Map> {
    let mut out = Map::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()).skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[directory, size, blocks, megabytes, log] = words.as_slice() else {
            let text = "not enough values to unpack (expected 5)";
            return Err(CallError::raised("ValueError", text));
        };
        let entry = map! {
            "block _size" => size, "blocks" => blocks, "megabytes" => megabytes, "logsize" => log,
        };
        out.set(directory, entry);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry() {
        let text = "meta-data=/dev/x     isize=512    agcount=4, agsize=640 blks\n         =   sectsz=512  attr=2\n\
                    data     =           bsize=4096   blocks=2560, imaxpct=25\nnaming   =version 2   bsize=4096\n";
        let got = info(text).unwrap();
        let meta = got.get("meta-data").unwrap().as_map().unwrap();
        assert_eq!(meta.str("section"), Some("/dev/x"));
        assert_eq!(meta.str("agsize"), Some("640 blks"));
        assert_eq!(meta.str("attr"), Some("2"));
        assert_eq!(
            got.get("data").unwrap().as_map().unwrap().str("section"),
            Some("data")
        );
        assert_eq!(
            got.get("naming").unwrap().as_map().unwrap().str("section"),
            Some("version 2")
        );
    }

    #[test]
    fn dumps() {
        let tree = "file system 0:\n\tfs id:\t\tabc\n\tsession 0:\n\t\tmount point:\t/x\n\t\tstream 0:\n\t\t\tpathname:\tp\n\
                    \tsession 1:\n\t\tmount point:\t/y\nxfsrestore: Restore Status: SUCCESS\n";
        let got = inventory(tree);
        assert_eq!(
            got.str("restore_status"),
            Some("xfsrestore: Restore Status: SUCCESS")
        );
        let fs = got.get("file system 0").unwrap().as_map().unwrap();
        assert_eq!(fs.str("fs id"), Some("abc"));
        assert_eq!(
            fs.get("session 1")
                .unwrap()
                .as_map()
                .unwrap()
                .str("mount point"),
            Some("/y")
        );
        let prune = "x\n-----\nSession 0: h\nUUID : u-1\nMount Point : /x\n-----\nrest : 1\n";
        assert_eq!(pruned(prune), map! {"uuid" => "u-1", "mount_point" => "/x"});
    }
}
