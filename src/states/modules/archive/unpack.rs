//! Unpacks an archive.

use super::*;

/// Unpacks; returns the names.
pub(super) fn unpack(s: &mut State<'_, '_>, job: &Job) -> Result<Early<Vec<String>>> {
    let args = vec![Value::from(job.file.as_str()), job.dir.as_str().into()];
    let mut kwargs = s.kwargs.clone();
    kwargs.set("trim_output", false);
    if job.format == "tar" {
        return tar(s, job);
    }
    let options = job.options.as_deref().map_or(Value::Nil, Value::from);
    let done = if job.format == "rar" {
        s.salt("archive.unrar", args)
    } else {
        kwargs.set("options", options.clone());
        kwargs.set("password", s.arg("password").clone());
        let by_program = match s.arg("use_cmd_unzip") {
            Value::Nil => !options.is_nil(),
            other => other.truthy(),
        };
        if by_program {
            s.salt_with("archive.cmd_unzip", args, kwargs)
        } else {
            kwargs.set("extract_perms", s.arg("extract_perms").clone());
            s.salt_with("archive.unzip", args, kwargs)
        }
    };
    match done {
        Ok(names) => Ok(Ok(names.str_list())),
        Err(CallError::Command(text)) => bad(text),
        Err(fault) => Err(fault),
    }
}

/// Unpacks with tar, which names what it unpacks.
fn tar(s: &mut State<'_, '_>, job: &Job) -> Result<Early<Vec<String>>> {
    let words = match &job.options {
        Some(options) => shlex::split(options)
            .map_err(|e| CallError::Command(format!("invalid options: {e}")))?,
        None => Vec::new(),
    };
    let mut short = String::from("xv");
    let mut argv = vec![Value::from("tar")];
    let mut long = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.starts_with("--") || at > 0 {
            long.push(Value::from(word.as_str()));
        } else {
            let dash = word.starts_with('-');
            let own = word.trim_start_matches('-');
            // A `v` that comes with others is one more of it, as in stock Salt.
            let alone = own == "v";
            let own = own.chars();
            short
                .extend(own.filter(|c| !matches!(c, 'x' | 'f') && !(*c == 'v' && (alone || dash))));
        }
    }
    argv.push(format!("-{short}").into());
    argv.extend(long);
    argv.extend([Value::from("-f"), job.file.as_str().into()]);
    let kwargs =
        map! {"cwd" => job.dir.as_str(), "python_shell" => false, "ignore_retcode" => true};
    let ran = s.salt_with("cmd.run_all", vec![argv.into()], kwargs)?;
    let ran = ran.into_map().unwrap_or_default();
    if ran.int("retcode") != Some(0) {
        return Ok(Err(StateOutcome::bad("").changes(ran)));
    }
    let lines = ran.str("stdout").unwrap_or_default().lines();
    let names = lines.map(|line| match &job.options {
        None => line.trim_end_matches('/').to_owned(),
        Some(_) => line.to_owned(),
    });
    Ok(Ok(names.collect()))
}
