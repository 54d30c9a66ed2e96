//! File access for the master itself: for orchestration, reactions and functions that copy
//! files (`salt/fileclient.py FSClient`, `salt/fileserver/__init__.py FSChan`).

use super::request_path::RequestPath;
use super::{FileListKind, FileServer, Found};
use std::fs::File;
use std::io;

/// A file that is open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Its name below `salt://`.
    pub name: String,
    /// Its path on this host; only set for files of `file_roots`.
    pub path: Option<String>,
}

impl FileServer {
    /// Opens a file by its name below `salt://`, in which `?` and `|` are not special. The first backend
    /// that has it wins; `Ok(None)` if none has it.
    ///
    /// # Errors
    /// When the file is there and cannot be opened.
    pub fn open(&mut self, name: &str, env: &str) -> io::Result<Option<Opened>> {
        let name = name.trim_start_matches('/');
        self.open_request(RequestPath::plain(name, env), name)
    }

    /// Opens a file by its URL without `salt://`, which may end with `?saltenv=`.
    ///
    /// # Errors
    /// When the file is there and cannot be opened.
    pub fn open_url(&mut self, url: &str) -> io::Result<Option<Opened>> {
        let request = RequestPath::parse(url, "base");
        let name = request.as_ref().map(|w| w.path.clone());
        self.open_request(request, &name.unwrap_or_default())
    }

    fn open_request(
        &mut self,
        request: Option<RequestPath>,
        name: &str,
    ) -> io::Result<Option<Opened>> {
        let Some(found) = request.and_then(|request| self.find_request(&request)) else {
            return Ok(None);
        };
        let Found { back, place, .. } = &found;
        match place.open() {
            Ok(file) => Ok(Some(Opened {
                file,
                name: name.to_owned(),
                path: (*back == "roots").then(|| found.path.clone()),
            })),
            // Removed since it was found.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The files of an environment, sorted.
    pub fn files(&mut self, env: &str) -> Vec<String> {
        let all = self.picked(None);
        self.names(&all, env, "", FileListKind::Files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_config::MasterConfig;
    use std::io::Read;

    #[test]
    fn files_are_read_below_their_roots() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().to_str().unwrap();
        for (name, text) in [
            ("a/x.sls", "1"),
            ("a/odd?saltenv=dev", "2"),
            ("d/x.sls", "3"),
            ("secret", "s"),
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let roots = halite_wire::map! {
            "base" => vec![format!("{top}/a")], "dev" => vec![format!("{top}/d")],
        };
        let options = halite_wire::map! {
            "root_dir" => top, "file_roots" => roots, "fileserver_list_cache_time" => 0,
        };
        let config = MasterConfig::from_map(options, dir.path()).unwrap();
        let mut server = FileServer::new(&(&config).into());
        let text = |opened: io::Result<Option<Opened>>| {
            let mut text = String::new();
            opened.unwrap()?.file.read_to_string(&mut text).unwrap();
            Some(text)
        };
        assert_eq!(text(server.open("x.sls", "base")).as_deref(), Some("1"));
        assert_eq!(text(server.open("/x.sls", "dev")).as_deref(), Some("3"));
        let odd = "odd?saltenv=dev";
        assert_eq!(text(server.open(odd, "base")).as_deref(), Some("2"));
        let url = "x.sls?saltenv=dev";
        assert_eq!(text(server.open_url(url)).as_deref(), Some("3"));
        for bad in ["../secret", "a/../../secret", "x.sls\0", "", "."] {
            assert_eq!(text(server.open(bad, "base")), None, "{bad}");
            assert_eq!(text(server.open_url(bad)), None, "{bad}");
        }
        assert_eq!(text(server.open("x.sls", "none")), None);
        assert_eq!(server.files("base"), [odd, "x.sls"]);
        assert!(server.files("none").is_empty());
    }
}
