//! `state.pkg`: states that salt-ssh has compiled and packed with the files they need (`salt/client/ssh/state.py
//! prep_trans_tar`): `lowstate.json`, `pillar.json`, `roster_grains.json`, and a directory for each environment.

use super::session::{Session, compiler_error};
use flate2::read::GzDecoder;
use halite_modules::args;
use halite_modules::execution::declare::{Function, Result};
use halite_modules::execution::{Call, CallError, invoke, python};
use halite_render::state::compile::compile_low;
use halite_wire::{Map, Value, json};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const PKG: Function = Function::new(
    "pkg",
    pkg,
    "Applies states that are packed in a file, as salt-ssh packs them, if the file has the hash given.",
)
.args(args![pkg_path, pkg_sum, hash_type, test = None])
.keywords()
.outputter("highstate");

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
    fn new(path: &str, cachedir: &Path) -> Result<Unpacked> {
        let place = cachedir.join(format!("state_pkg.{}", std::process::id()));
        let at = |e: std::io::Error| python::os_error(&e, &place.to_string_lossy());
        DirBuilder::new().mode(0o700).create(&place).map_err(at)?;
        let unpacked = Unpacked(place);
        let file = File::open(path).map_err(|e| python::os_error(&e, path))?;
        let mut archive = tar::Archive::new(GzDecoder::new(file));
        archive.set_preserve_permissions(false);
        archive
            .unpack(&unpacked.0)
            .map_err(|e| CallError::Command(format!("{path} cannot be unpacked: {e}")))?;
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
    let (path, sum) = (text("pkg_path"), text("pkg_sum"));
    let args = vec![path.as_str().into(), call.arg("hash_type").clone()];
    let found = invoke(call.ctx, "file.get_hash", args, Map::new())?;
    // Stock returns nothing then, as if all was well.
    if !found.is_str(&sum) {
        return Err(CallError::Command(format!(
            "{path} has the hash {}, not {sum}",
            python::str(&found)
        )));
    }
    let unpacked = Unpacked::new(&path, &call.ctx.cachedir)?;
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
