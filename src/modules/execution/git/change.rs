//! Functions that change a repository or its checkout.

use super::super::bind::is_option;
use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::run::{Git, cwd, expand, keyword, opts, reject_unknown_kwargs};
use halite_wire::{Value, shlex};

fn text(call: &Call<'_>, name: &str) -> String {
    python::str(call.arg(name))
}

pub fn add(call: &mut Call<'_>) -> Result {
    let opts = opts(call)?
        .into_iter()
        .filter(|o| o != "-v" && o != "--verbose");
    Git::new(call, &["add", "--verbose"])?
        .args(opts)
        .arg("--")
        .arg(text(call, "filename"))
        .value(call)
}

pub fn archive(call: &mut Call<'_>) -> Result {
    let cwd = cwd(call).unwrap_or_default();
    let output = expand(call, &text(call, "output"));
    reject_unknown_kwargs(call, &["format"])?;
    let mut git = Git::new(call, &["archive"])?;
    if !call.arg("prefix").is_str("") {
        let prefix = match call.arg("prefix") {
            prefix if prefix.truthy() => python::str(prefix),
            _ => format!("{}/", cwd.rsplit('/').next().unwrap_or_default()),
        };
        git = git.arg("--prefix").arg(prefix);
    }
    let format = keyword(call, "format");
    if format.truthy() {
        git = git.arg("--format").arg(python::str(format));
    }
    git.arg("--output")
        .arg(output)
        .arg(text(call, "rev"))
        .done(call)
}

pub fn branch(call: &mut Call<'_>) -> Result {
    Git::new(call, &["branch"])?
        .args(opts(call)?)
        .args(call.text("name"))
        .done(call)
}

pub fn checkout(call: &mut Call<'_>) -> Result {
    let opts = opts(call)?;
    let rev = call.text("rev");
    if rev.is_none() && !opts.iter().any(|o| o == "-b" || o == "-B") {
        return Err(CallError::Invocation(
            "'rev' argument is required unless -b or -B in opts".into(),
        ));
    }
    Git::new(call, &["checkout"])?
        .flag(call.flag("force"), "--force")
        .args(opts)
        .args(rev)
        .merge_stderr()
        .value(call)
}

pub fn commit(call: &mut Call<'_>) -> Result {
    let mut git = Git::new(call, &["commit", "-m"])?
        .arg(text(call, "message"))
        .args(opts(call)?);
    if call.flag("filename") {
        git = git.arg("--").arg(text(call, "filename"));
    }
    git.value(call)
}

pub fn discard_local_changes(call: &mut Call<'_>) -> Result {
    Git::plain(call, &["checkout", "--"])
        .arg(text(call, "path"))
        .merge_stderr()
        .value(call)
}

pub fn init(call: &mut Call<'_>) -> Result {
    let named = |option: &str, name: &str| call.text(name).map(|v| format!("--{option}={v}"));
    let shared = match call.arg("shared") {
        Value::Nil => None,
        Value::Int(mode) => Some(format!("0{mode}")),
        Value::Str(text) => Some(text.clone()),
        other => Some(python::str(other).to_lowercase()),
    };
    Git::new(call, &["init"])?
        .flag(call.flag("bare"), "--bare")
        .args(named("template", "template"))
        .args(named("separate-git-dir", "separate_git_dir"))
        .args(shared.map(|s| format!("--shared={s}")))
        .args(opts(call)?)
        .args(cwd(call))
        .current_dir(Value::Nil)
        .value(call)
}

pub fn merge(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &[])?;
    let rev = call.text("rev").filter(|rev| !rev.is_empty());
    Git::new(call, &["merge"])?
        .args(opts(call)?)
        .args(rev)
        .value(call)
}

pub fn rebase(call: &mut Call<'_>) -> Result {
    let opts = opts(call)?;
    if opts.iter().any(|o| o == "-i" || o == "--interactive") {
        return Err(CallError::Invocation(
            "Interactive rebases are not supported".into(),
        ));
    }
    let rev = shlex::split(&text(call, "rev")).map_err(|e| CallError::raised("ValueError", e))?;
    // Stock takes options here, of which this one has its place before revisions.
    if rev.iter().any(|word| is_option(word) && word != "--onto") {
        return Err(CallError::Invocation(
            "The argument 'rev' may not be an option other than --onto".into(),
        ));
    }
    Git::new(call, &["rebase"])?
        .args(opts)
        .args(rev)
        .value(call)
}

pub fn reset(call: &mut Call<'_>) -> Result {
    Git::new(call, &["reset"])?.args(opts(call)?).value(call)
}

pub fn rm(call: &mut Call<'_>) -> Result {
    Git::new(call, &["rm"])?
        .args(opts(call)?)
        .arg("--")
        .arg(text(call, "filename"))
        .value(call)
}

pub fn stash(call: &mut Call<'_>) -> Result {
    Git::new(call, &["stash"])?
        .arg(text(call, "action"))
        .args(opts(call)?)
        .value(call)
}

/// Stock splits a text value into letters, which git rejects; here it is one argument.
pub fn symbolic_ref(call: &mut Call<'_>) -> Result {
    let opts = opts(call)?;
    let value = call.arg("value");
    if !value.is_nil() && opts.iter().any(|o| o == "-d" || o == "--delete") {
        return Err(CallError::Invocation(
            "Value cannot be set for symbolic ref if -d/--delete is included in opts".into(),
        ));
    }
    let value = match value {
        Value::Array(words) => words.iter().map(python::str).collect(),
        value if value.truthy() => vec![python::str(value)],
        _ => Vec::new(),
    };
    Git::new(call, &["symbolic-ref"])?
        .args(opts)
        .arg(text(call, "ref"))
        .args(value)
        .value(call)
}

pub fn tag(call: &mut Call<'_>) -> Result {
    let opts: Vec<String> = opts(call)?
        .into_iter()
        .filter(|o| o != "-a" && o != "--annotate")
        .collect();
    if opts.iter().any(|o| o == "-m" || o.contains("--message")) {
        return Err(CallError::Invocation(
            "Tag messages must be passed in the \"message\" argument".into(),
        ));
    }
    let mut git = Git::new(call, &["tag"])?;
    if let Some(message) = call.text("message") {
        git = git.arg("-a").arg("-m").arg(message);
    }
    let removes = opts.iter().any(|o| o == "-d" || o == "--delete");
    git = git.args(opts).arg(text(call, "name"));
    if !removes {
        git = git.arg(text(call, "ref"));
    }
    git.merge_stderr().value(call)
}
