//! `state.pkg`: states that salt-ssh has compiled and packed with the files they need (`salt/client/ssh/state.py
//! prep_trans_tar`): `lowstate.json`, `pillar.json`, `roster_grains.json`, and a directory for each environment.

use super::session::{Session, compiler_error};
use flate2::read::GzDecoder;
use halite_crypto::HashType;
use halite_modules::args;
use halite_modules::execution::declare::{Function, Result};
use halite_modules::execution::{Call, CallError, python};
use halite_render::state::compile::compile_low;
use halite_sys::safe_open::open_finite;
use halite_wire::{Map, Value, json};
use std::fs::DirBuilder;
use std::io::Seek;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const PKG: Function = Function::new(
    "pkg",
    pkg,
    "Applies states that are packed in a file, as salt-ssh packs them, if the file has the hash given.",
)
.args(args![pkg_path, pkg_sum, hash_type, test = None])
.keywords()
.outputter("highstate");

/// How the directories begin; the process follows.
const PREFIX: &str = "state_pkg.";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Removes what processes that were killed have left.
fn sweep(cachedir: &Path) {
    for entry in std::fs::read_dir(cachedir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            let process = name.strip_prefix(PREFIX)?.split('.').next()?;
            process.parse::<u32>().ok()
        });
        if process.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Whoever comes next tries again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory that is removed when it is dropped.
struct Unpacked(PathBuf);

impl Drop for Unpacked {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            log::warn!("{} cannot be removed: {e}", self.0.display());
        }
    }
}

impl Unpacked {
    /// Unpacks a file with this hash, by its kind. It is opened once: it may be exchanged meanwhile.
    fn new(path: &str, (kind, sum): (&str, &str), cachedir: &Path) -> Result<Unpacked> {
        let bad = |e: &dyn std::fmt::Display| CallError::Command(format!("{path}: {e}"));
        let kind: HashType = kind
            .parse()
            .map_err(|e: <HashType as std::str::FromStr>::Err| bad(&e))?;
        let mut file = open_finite(path.as_ref()).map_err(|e| bad(&e))?;
        let found = kind.hex_of(&mut file).map_err(|e| bad(&e))?;
        // Stock returns nothing then, as if all was well.
        if !found.eq_ignore_ascii_case(sum) {
            return Err(CallError::Command(format!(
                "{path} has the hash {found}, not {sum}"
            )));
        }
        file.rewind().map_err(|e| bad(&e))?;
        sweep(cachedir);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}.{number}", std::process::id());
        let place = cachedir.join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&place)
            .map_err(|e| bad(&e))?;
        let unpacked = Unpacked(place);
        let mut archive = tar::Archive::new(GzDecoder::new(file));
        archive.set_preserve_permissions(false);
        archive.unpack(&unpacked.0).map_err(|e| {
            let why = "is it a tar file, compressed with gzip?";
            CallError::Command(format!("{path} cannot be unpacked: {e}; {why}"))
        })?;
        Ok(unpacked)
    }

    /// The data of a file in it, if it is there.
    fn read(&self, name: &str) -> Result<Option<Value>> {
        let bad = |e: &dyn std::fmt::Display| CallError::Command(format!("{name}: {e}"));
        match std::fs::read(self.0.join(name)) {
            Ok(bytes) => json::parse(&bytes).map(Some).map_err(|e| bad(&e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(bad(&e)),
        }
    }

    fn read_map(&self, name: &str) -> Result<Option<Map>> {
        let not = || CallError::Command(format!("{name} is not a map"));
        let data = self.read(name)?;
        data.map(|data| data.into_map().ok_or_else(not)).transpose()
    }

    /// Environments with their directory, for `file_roots`.
    fn roots(&self) -> Result<Map> {
        let bad = |e: std::io::Error| python::os_error(&e, &self.0.to_string_lossy());
        let mut roots = Map::new();
        for entry in std::fs::read_dir(&self.0).map_err(bad)? {
            let entry = entry.map_err(bad)?;
            if entry.file_type().map_err(bad)?.is_dir() {
                let dir = entry.path().to_string_lossy().into_owned();
                roots.set(entry.file_name().to_string_lossy().as_ref(), vec![dir]);
            }
        }
        Ok(roots)
    }
}

fn pkg(call: &mut Call<'_>) -> Result {
    let text = |name| python::str(call.arg(name));
    let (path, sum, kind) = (text("pkg_path"), text("pkg_sum"), text("hash_type"));
    let unpacked = Unpacked::new(&path, (&kind, &sum), &call.ctx.cachedir)?;
    let low = unpacked.read("lowstate.json")?;
    let chunks = low.and_then(|low| {
        let list = low.as_array()?.iter();
        list.map(|chunk| chunk.as_map().cloned()).collect()
    });
    let Some(chunks): Option<Vec<Map>> = chunks else {
        return Err(CallError::Command(format!(
            "{path} has no list of states in lowstate.json"
        )));
    };
    let mut ctx = call.ctx.clone();
    let opts = Arc::make_mut(&mut ctx.opts);
    opts.set("file_client", "local");
    opts.set("fileserver_backend", vec!["roots".to_owned()]);
    opts.set("file_roots", unpacked.roots()?);
    if let Some(grains) = unpacked.read_map("roster_grains.json")? {
        ctx.grains = Arc::new(grains);
    }
    if let Some(pillar) = unpacked.read_map("pillar.json")? {
        ctx.pillar = Arc::new(pillar);
    }
    let session = match Session::with(call, ctx) {
        Ok(session) => session,
        Err(refusal) => return refusal.into_return(call),
    };
    match compile_low(chunks, &session.rules(call, &Map::new())) {
        Ok(compiled) => Ok(session.run(call, compiled)),
        Err(errors) => compiler_error(errors).into_return(call),
    }
}
