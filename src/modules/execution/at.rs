//! `at`: jobs that run once, through at(1) of Linux.

use super::bind::is_option;
use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell, which};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: Module = Module {
    name: "at",
    functions: &[
        Function::new(
            "at",
            at,
            "Adds a job: a time, and the words of a command; with tag and runas.",
        )
        .varargs()
        .keywords(),
        Function::new("atc", atc, "The script of a job.")
            .args(args![jobid])
            .names(&["jobid"]),
        Function::new(
            "atq",
            |c| {
                let tag = c.arg("tag").clone();
                found(c, &tag)
            },
            "The jobs, or those with a tag or a number.",
        )
        .args(args![tag = None]),
        Function::new("atrm", atrm, "Removes jobs by their numbers, or all.").varargs(),
        Function::new(
            "jobcheck",
            jobcheck,
            "The jobs that fit: runas, tag, hour, minute, day, month, year.",
        )
        .keywords(),
    ],
};

fn program(name: &str) -> Result<String> {
    which(name).ok_or_else(|| CallError::Command(format!("{name}: command not found")))
}

/// The month of its English name.
fn month(name: &str) -> Option<usize> {
    let names = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let name = name.to_lowercase();
    names
        .iter()
        .position(|known| *known == name)
        .map(|at| at + 1)
}

/// Date, time, queue and user of a line of atq: `Sun Nov 30 10:00:00 2025 a root`.
fn parsed(spec: &str) -> Option<[String; 4]> {
    let words: Vec<&str> = spec.split_whitespace().collect();
    let &[_, name, day, time, year, queue, user, ..] = words.as_slice() else {
        return None;
    };
    let month = month(name)?;
    let day: u8 = day.parse().ok()?;
    // Seconds are not kept.
    let (minutes, _) = time.rsplit_once(':')?;
    Some([
        format!("{year}-{month:02}-{day:02}"),
        format!("{minutes}:00"),
        queue.to_owned(),
        user.to_owned(),
    ])
}

/// All jobs.
fn jobs(call: &mut Call<'_>) -> Result<Vec<Map>> {
    let redhat = call.ctx.grains.str("os_family") == Some("RedHat");
    let argv = if redhat {
        vec![program("at")?, "-l".to_owned()]
    } else {
        vec![program("atq")?]
    };
    let mut all = Vec::new();
    for line in shell::stdout(call, &argv)?.lines() {
        let broken = || {
            CallError::raised(
                "ValueError",
                format!("time data '{line}' does not match format"),
            )
        };
        let (id, spec) = line.split_once('\t').ok_or_else(broken)?;
        let [date, time, queue, user] = if redhat {
            let mut words = spec.split_whitespace().map(str::to_owned);
            std::array::from_fn(|_| words.next().unwrap_or_default())
        } else {
            parsed(spec).ok_or_else(broken)?
        };
        let id: i64 = id.trim().parse().map_err(|_| broken())?;
        let script = shell::stdout(call, &[program("at")?, "-c".to_owned(), id.to_string()])?;
        let tags = script
            .lines()
            .filter_map(|line| line.strip_prefix("### SALT: "));
        let word = |tag: &str| {
            let end = tag.find(|c: char| !c.is_alphanumeric() && c != '_');
            tag.get(..end.unwrap_or(tag.len()))
                .unwrap_or_default()
                .to_owned()
        };
        let tag = tags.map(word).rfind(|tag| !tag.is_empty());
        all.push(map! {
            "job" => id, "date" => date, "time" => time, "queue" => queue, "user" => user, "tag" => tag.unwrap_or_default(),
        });
    }
    Ok(all)
}

fn list(jobs: Vec<Map>) -> Value {
    map! {"jobs" => jobs.into_iter().map(Value::Map).collect::<Vec<_>>()}.into()
}

/// The jobs with a tag or a number; all without one.
fn found(call: &mut Call<'_>, tag: &Value) -> Result {
    let mut all = jobs(call)?;
    if tag.truthy() {
        all.retain(|job| job.get("tag") == Some(tag) || job.get("job") == Some(tag));
    }
    Ok(list(all))
}

fn at(call: &mut Call<'_>) -> Result {
    let args: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    let (Some(time), true) = (args.first(), args.len() > 1) else {
        return Ok(list(Vec::new()));
    };
    if time.starts_with('-') || is_option(time) {
        return Err(CallError::Invocation(format!("{time} is not a time")));
    }
    let Some(program) = which("at") else {
        return Ok("'at.at' is not available.".into());
    };
    let mut script = args.get(1..).unwrap_or_default().join(" ") + "\n";
    if let Some(tag) = call.bound.kwargs.get("tag") {
        let tag = python::str(tag);
        if tag.contains(['\n', '\r']) {
            let text = "The argument 'tag' may not contain line breaks";
            return Err(CallError::Invocation(text.to_owned()));
        }
        script = format!("### SALT: {tag}\n{script}");
    }
    let mut options = map! {"stdin" => script, "python_shell" => false};
    if let Some(user) = call.bound.kwargs.get("runas") {
        options.set("runas", user.clone());
    }
    let argv = vec![Value::from(program), time.as_str().into()];
    let said = python::str(&call.salt("cmd.run", vec![argv.into()], options)?);
    if said.ends_with("Garbled time") {
        return Ok(map! {"jobs" => Vec::<Value>::new(), "error" => "invalid timespec"}.into());
    }
    let short = || CallError::raised("IndexError", "list index out of range");
    let mut lines = said.lines();
    let mut line = lines.next().unwrap_or_default();
    for start in ["warning: commands", "commands will be executed"] {
        if line.starts_with(start) {
            line = lines.next().ok_or_else(short)?;
        }
    }
    // `job 5 at Sun Nov 30 10:00:00 2025`.
    let word = line.split_whitespace().nth(1).ok_or_else(short)?;
    let id: i64 = word.parse().map_err(|_| {
        CallError::raised(
            "ValueError",
            format!("invalid literal for int() with base 10: '{word}'"),
        )
    })?;
    found(call, &id.into())
}

fn atc(call: &mut Call<'_>) -> Result {
    let id = python::str(call.arg("jobid"));
    let script = shell::stdout(call, &[program("at")?, "-c".to_owned(), id.clone()])?;
    Ok(if script.is_empty() {
        map! {"error" => format!("invalid job id '{id}'")}.into()
    } else {
        script.into()
    })
}

fn atrm(call: &mut Call<'_>) -> Result {
    let args: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    if which("at").is_none() {
        return Ok("'at.atrm' is not available.".into());
    }
    let ids = |jobs: &[Map]| -> Vec<String> {
        let ids = jobs
            .iter()
            .filter_map(|job| job.get("job"))
            .map(python::str);
        ids.collect()
    };
    let mut tag = Value::Nil;
    let removed = match args.first().map(String::as_str) {
        None => Vec::new(),
        Some("all") => {
            tag = args.get(1).map_or(Value::Nil, |tag| tag.as_str().into());
            let all = found(call, &tag)?.into_map().unwrap_or_default();
            let all = all
                .get("jobs")
                .and_then(Value::as_array)
                .unwrap_or_default();
            ids(&all
                .iter()
                .filter_map(Value::as_map)
                .cloned()
                .collect::<Vec<_>>())
        }
        Some(_) => {
            let mut all = ids(&jobs(call)?);
            all.retain(|id| args.contains(id));
            all
        }
    };
    if !removed.is_empty() {
        // Stock gives all numbers in one word, which at(1) does not understand.
        let mut argv = vec![program("at")?, "-d".to_owned()];
        argv.extend_from_slice(&removed);
        shell::stdout(call, &argv)?;
    }
    let removed: Vec<Value> = removed.into_iter().map(Value::Str).collect();
    Ok(map! {"jobs" => map! {"removed" => removed, "tag" => tag}}.into())
}

fn jobcheck(call: &mut Call<'_>) -> Result {
    let mut wanted = call.bound.kwargs.clone();
    wanted
        .0
        .retain(|(key, _)| !key.as_str().is_some_and(|key| key.starts_with("__")));
    if wanted.is_empty() {
        return Ok(map! {"error" => "You have given a condition"}.into());
    }
    let all = jobs(call)?;
    if all.is_empty() {
        return Ok(list(all));
    }
    let mut fitting = Vec::new();
    for job in all {
        if fits(&job, &wanted)? {
            fitting.push(job);
        }
    }
    if fitting.is_empty() {
        let note = "No match jobs or time format error";
        return Ok(map! {"jobs" => Vec::<Value>::new(), "note" => note}.into());
    }
    Ok(list(fitting))
}

fn fits(job: &Map, wanted: &Map) -> Result<bool> {
    let given = |key: &str| wanted.get(key).filter(|value| value.truthy());
    for (key, field) in [("runas", "user"), ("tag", "tag")] {
        if given(key).is_some_and(|value| job.get(field) != Some(value)) {
            return Ok(false);
        }
    }
    let part = |field: &str, mark: char, at: usize| {
        job.str(field)
            .and_then(|text| text.split(mark).nth(at))
            .map(str::to_owned)
    };
    for (key, field, mark, at) in [
        ("hour", "time", ':', 0),
        ("minute", "time", ':', 1),
        ("day", "date", '-', 2),
        ("month", "date", '-', 1),
    ] {
        if let Some(value) = given(key)
            && part(field, mark, at) != Some(format!("{:02}", python::int(value)?))
        {
            return Ok(false);
        }
    }
    let year = given("year").map(|year| match python::str(year) {
        short if short.len() == 2 => format!("20{short}").into(),
        _ => year.clone(),
    });
    Ok(year.is_none_or(|year| year.as_str() == part("date", '-', 0).as_deref()))
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn lines() {
        let wanted = ["2025-11-03", "10:05:00", "a", "root"].map(str::to_owned);
        assert_eq!(parsed("Mon Nov  3 10:05:07 2025 a root"), Some(wanted));
    }
}
