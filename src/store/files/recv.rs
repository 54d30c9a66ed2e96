//! `_file_recv`: files that minions send (`salt/master.py AESFuncs._file_recv`).

use super::confined;
use super::names;
use halite_config::MasterConfig;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};

/// Writes one chunk of a file to `cachedir/minions/<id>/files`. `false` if it is
/// refused, which is sent to the minion. `id` is the minion whose channel it came through, not the `id` in the load.
///
/// # Errors
/// The file cannot be written.
pub fn receive(config: &MasterConfig, id: &MinionId, load: &Map) -> io::Result<bool> {
    let Some(chunk) = Chunk::read(load) else {
        return Ok(false);
    };
    if !config.file_recv {
        return Ok(false);
    }
    let limit = config.file_recv_max_size.saturating_mul(1024 * 1024);
    if (chunk.data.len() as u64).saturating_add(chunk.loc) > limit {
        log::error!(
            "{id} sends {:?}, which is larger than file_recv_max_size ({} MB); refused",
            chunk.path,
            config.file_recv_max_size
        );
        return Ok(false);
    }
    let Some(rel) = names::inside(&chunk.path) else {
        log::warn!(
            "{id} tried to write to {:?}, outside its own files; refused",
            chunk.path
        );
        return Ok(false);
    };
    let root = config
        .cachedir
        .join("minions")
        .join(id.as_str())
        .join("files");
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&root)?;
    let file = match confined::create(&root, &rel, chunk.loc == 0) {
        Ok(file) => file,
        Err(e) if is_bad_path(&e) => {
            log::warn!("{id} cannot write to {rel:?}: {e}; refused");
            return Ok(false);
        }
        Err(e) => return Err(e),
    };
    file.write_all_at(chunk.data, chunk.loc)?;
    Ok(true)
}

/// Whether the path itself causes the error; other errors are failures of the master.
fn is_bad_path(e: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    let links = Some(nix::errno::Errno::ELOOP as i32);
    let long = Some(nix::errno::Errno::ENAMETOOLONG as i32);
    let fifo = Some(nix::errno::Errno::ENXIO as i32);
    matches!(e.kind(), IsADirectory | NotADirectory | NotFound)
        || [links, long, fifo].contains(&e.raw_os_error())
}

struct Chunk<'a> {
    path: String,
    loc: u64,
    data: &'a [u8],
}

impl Chunk<'_> {
    fn read(load: &Map) -> Option<Chunk<'_>> {
        let Value::Array(parts) = load.get("path")? else {
            return None;
        };
        let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
        let parts = parts.filter(|parts| !parts.contains(&"../"))?;
        Some(Chunk {
            path: parts.join("/"),
            loc: u64::try_from(load.int("loc")?).ok()?,
            data: load.bytes("data")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        dir: tempfile::TempDir,
        config: MasterConfig,
    }

    impl Fixture {
        fn new() -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let options = halite_wire::map! {
                "root_dir" => dir.path().to_string_lossy().as_ref(), "file_recv" => true,
                "cachedir" => "/cache", "file_recv_max_size" => 1, "sock_dir" => "/s",
            };
            let config = MasterConfig::from_map(options, dir.path()).unwrap();
            Fixture { dir, config }
        }

        fn send(&self, parts: &[&str], loc: i64, data: &[u8]) -> bool {
            let path: Vec<Value> = parts.iter().map(|p| (*p).into()).collect();
            let load = halite_wire::map! {
                "id" => "other", "path" => path, "loc" => loc, "data" => data.to_vec(), "size" => 1
            };
            receive(&self.config, &"m1".parse().unwrap(), &load).unwrap()
        }

        fn read(&self, path: &str) -> Option<Vec<u8>> {
            let files = self.dir.path().join("cache/minions/m1/files");
            std::fs::read(files.join(path)).ok()
        }
    }

    #[test]
    fn chunks_make_a_file() {
        let f = Fixture::new();
        assert!(f.send(&["etc", "x"], 0, b"hello old and long"));
        assert!(f.send(&["etc", "x"], 0, b"hello "));
        assert!(f.send(&["etc", "x"], 6, b"world"));
        // A chunk may be sent twice.
        assert!(f.send(&["etc", "x"], 6, b"world"));
        assert_eq!(f.read("etc/x").unwrap(), b"hello world");
        assert!(f.send(&["a", "..", "b"], 0, b""));
        assert_eq!(f.read("b").unwrap(), b"");
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let f = Fixture::new();
        assert!(f.send(&["etc", "x"], 0, b"x"));
        for bad in [
            &["..", "x"][..],
            &["..", "..", "m2", "files", "x"],
            &["../x"],
            &["../"],
            &["/etc/cron.d/x"],
            &["", "etc", "x"],
            &["a", "../../../x"],
            &["a/../../x"],
            &["."],
            &[],
            &[""],
            &["etc"],
            &["etc", "x", "y"],
            &["nul\0"],
        ] {
            assert!(!f.send(bad, 0, b"evil"), "{bad:?}");
        }
        let root = f.dir.path().join("cache/minions");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1, "only m1");
        assert_eq!(std::fs::read_dir(root.join("m1")).unwrap().count(), 1);
    }

    #[test]
    fn existing_links_are_not_followed() {
        let f = Fixture::new();
        assert!(f.send(&["x"], 0, b"x"));
        let files = f.dir.path().join("cache/minions/m1/files");
        let secret = f.dir.path().join("secret");
        std::fs::write(&secret, "s").unwrap();
        std::os::unix::fs::symlink(&secret, files.join("file")).unwrap();
        std::os::unix::fs::symlink(f.dir.path(), files.join("dir")).unwrap();
        assert!(!f.send(&["file"], 0, b"evil"));
        assert!(!f.send(&["dir", "secret"], 0, b"evil"));
        assert_eq!(std::fs::read(&secret).unwrap(), b"s");
    }

    #[test]
    fn limits_are_enforced() {
        let mut f = Fixture::new();
        let mega = 1024 * 1024;
        assert!(f.send(&["x"], mega - 1, b"x"));
        assert!(!f.send(&["x"], mega, b"x"));
        assert!(!f.send(&["x"], i64::MAX, b"x"));
        assert!(!f.send(&["x"], -1, b"x"));
        for bad in [
            halite_wire::map! {"path" => "x", "loc" => 0, "data" => "x"},
            halite_wire::map! {"path" => vec![Value::Int(1)], "loc" => 0, "data" => "x"},
            halite_wire::map! {"path" => vec![Value::from("x")], "loc" => 0},
            halite_wire::map! {"path" => vec![Value::from("x")], "data" => "x"},
        ] {
            assert!(!receive(&f.config, &"m1".parse().unwrap(), &bad).unwrap());
        }
        f.config.file_recv = false;
        assert!(!f.send(&["y"], 0, b"x"));
        assert_eq!(f.read("y"), None);
    }
}
