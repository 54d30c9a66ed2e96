//! `file.decode`.

use super::Step;
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::os::{self, TempFile};
use halite_modules::execution::file::paths;
use halite_modules::execution::{CallError, python, traverse};
use halite_wire::Value;

pub(super) fn decode(s: &mut State<'_, '_>) -> Step {
    let name = paths::expanduser(&s.name());
    let (own, pillar) = (s.arg("encoded_data"), s.arg("contents_pillar"));
    let data = match (own.truthy(), pillar.truthy()) {
        (false, false) => {
            return Err(command(
                "Specify either the 'encoded_data' or 'contents_pillar' argument.",
            )
            .into());
        }
        (true, true) => {
            return Err(
                command("Specify only one 'encoded_data' or 'contents_pillar' argument.").into(),
            );
        }
        (true, false) => python::str(own),
        (false, true) => match traverse(&s.ctx().pillar, pillar, ":") {
            Some(found) => python::str(found),
            None => return Err(command("Pillar data not found.").into()),
        },
    };
    let checksum: Value = s.arg("checksum").clone();
    let path: Value = name.as_str().into();
    let exists = paths::exists(&name);
    let mut before = Value::Nil;
    if exists {
        before = s.salt("hashutil.digest_file", vec![path.clone(), checksum.clone()])?;
        let there = os::read(&name)?;
        let wanted = halite_wire::base64::decode(data.as_bytes())
            .map_err(|e| CallError::raised("binascii.Error", e))?;
        if wanted == there {
            return Ok(StateOutcome::good("File is in the correct state."));
        }
        if s.test {
            let wanted = TempFile::with(&wanted)?;
            let args = vec![wanted.path().into(), checksum];
            let after = s.salt("hashutil.digest_file", args)?;
            return Ok(StateOutcome::would("File is set to be updated.")
                .changes(crate::declare::old_new(before, after)));
        }
    }
    if s.test {
        return Ok(StateOutcome::would("File is set to be updated."));
    }
    s.salt(
        "hashutil.base64_decodefile",
        vec![data.into(), path.clone()],
    )?;
    let after = s.salt("hashutil.digest_file", vec![path, checksum])?;
    Ok(StateOutcome::good("File was updated.").changes(crate::declare::old_new(before, after)))
}

fn command(text: &str) -> CallError {
    CallError::Command(text.to_owned())
}
