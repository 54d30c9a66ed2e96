//! From options to a job, and running the job.

use super::show::{EXIT_NOTHING, ResultPrinter};
use super::{SaltOptions, output_config};
use crate::common::{EXIT_USAGE, Screen, fail};
use crate::output::texts;
use crate::progress::StateProgress;
use halite_client::batch::{self, JobSession};
use halite_client::fleet::Fleet;
use halite_client::gather::GatherTimeouts;
use halite_client::local::{ClientError, Job, LocalClient, Published, resolve_target};
use halite_config::MasterConfig;
use halite_sys::exit::EXIT_NO_USER;
use halite_sys::process::drop_privileges;
use halite_sys::signals::StopFlag;
use halite_target::Target;
use halite_wire::yaml::{parse_input, yamlify_arg};
use halite_wire::{Map, Value};
use std::io::BufRead;
use std::time::Duration;

/// Runs one command line.
pub(super) fn run(options: SaltOptions, config: MasterConfig) -> i32 {
    if options.detached && options.batch.is_some() {
        if !batch::has_manager(&config) {
            let why = "-b with --async is continued by the master, which needs salt_series: 3008 and a job_cache_compat other than none";
            return fail(why, EXIT_USAGE);
        }
        if options.auth.is_enabled() {
            let why = "-b with --async is for the master's account on its host; leave --async out, or the login";
            return fail(why, EXIT_USAGE);
        }
    }
    let screen = match options.output.open(output_config(&config)) {
        Ok(mut screen) => {
            screen.style.state_output_diff |= options.output_diff;
            screen
        }
        Err(e) => return fail(e, EXIT_NOTHING),
    };
    let job = match job(&options, &config) {
        Ok(job) => job,
        Err(e) => return fail(e, EXIT_USAGE),
    };
    if options.preview_target {
        return preview(&job, &config, screen);
    }
    let command = JobRun { options, screen };
    match command.run(job, config) {
        Ok(status) => status,
        Err(e) => fail(e, EXIT_NOTHING),
    }
}

/// The job given on the command line.
fn job(options: &SaltOptions, config: &MasterConfig) -> Result<Job, String> {
    let target = options
        .target
        .clone()
        .ok_or("no target given. Usage: halite [OPTIONS] <TARGET> <FUNCTION> [ARGUMENTS]...")?;
    let mut fun = options.fun.clone().unwrap_or_default();
    let mut words = options.args.clone();
    if options.args_stdin {
        for line in std::io::stdin().lock().lines() {
            words.push(line.map_err(|e| format!("standard input: {e}"))?);
        }
    }
    if options.doc {
        if !fun.is_empty() {
            words = vec![fun];
        }
        fun = "sys.doc".into();
    }
    if fun.is_empty() && !options.preview_target {
        return Err(format!(
            "no function given; for example: halite '{target}' test.ping"
        ));
    }
    let (tgt, tgt_type) = resolve_target(options.target_options.kind(), config, target)?;
    let (fun, arg) = functions(
        &fun,
        &words,
        &options.args_separator,
        &options.arguments.verbatim(),
    )?;
    Ok(Job {
        fun,
        arg,
        tgt,
        tgt_type,
        ret: options.returner.clone(),
        jid: String::new(),
        kwargs: kwargs(options),
    })
}

/// One function with its arguments, or several with a list each.
///
/// The separator is an argument of its own, once between each two functions; otherwise it is searched inside
/// the arguments (`salt/utils/parsers.py SaltCMDOptionParser`).
fn functions(
    fun: &str,
    words: &[String],
    separator: &str,
    verbatim: &[&str],
) -> Result<(Value, Vec<Value>), String> {
    if !fun.contains(',') {
        return Ok((fun.into(), arguments(words, verbatim)));
    }
    let names: Vec<String> = fun.split(',').map(|f| f.trim().to_owned()).collect();
    let alone = words.iter().filter(|word| *word == separator).count();
    let lists: Vec<Vec<String>> = if alone == names.len() - 1 {
        words
            .split(|word| word == separator)
            .map(<[String]>::to_vec)
            .collect()
    } else {
        separated_inside(words, separator)
    };
    if !words.is_empty() && lists.len() != names.len() {
        return Err(format!(
            "{} functions, but arguments for {}; separate the arguments of each two functions by '{separator}'",
            names.len(),
            lists.len()
        ));
    }
    let mut args: Vec<Value> = lists
        .iter()
        .map(|l| Value::Array(arguments(l, verbatim)))
        .collect();
    args.resize(names.len(), Value::Array(Vec::new()));
    Ok((names.into(), args))
}

fn separated_inside(words: &[String], separator: &str) -> Vec<Vec<String>> {
    let mut lists = vec![Vec::new()];
    for word in words {
        if separator.is_empty() || !word.contains(separator) {
            lists
                .last_mut()
                .into_iter()
                .for_each(|list: &mut Vec<String>| list.push(word.clone()));
            continue;
        }
        for (index, part) in word.split(separator).enumerate() {
            if index > 0 {
                lists.push(Vec::new());
            }
            if let (Some(list), false) = (lists.last_mut(), part.is_empty()) {
                list.push(part.to_owned());
            }
        }
    }
    lists
}

/// Positional arguments, followed by one map of keyword arguments (reference `salt-protocol.md` 5.3).
pub(crate) fn arguments(words: &[String], verbatim: &[&str]) -> Vec<Value> {
    let (mut positional, keyword) = parse_input(words, verbatim);
    if !keyword.is_empty() {
        let mut marked = halite_wire::map! {"__kwarg__" => true};
        marked.0.extend(keyword.0);
        positional.push(Value::Map(marked));
    }
    positional
}

fn kwargs(options: &SaltOptions) -> Map {
    let mut kwargs = halite_wire::map! {
        "show_timeout" => !options.hide_timeout,
        "show_jid" => options.show_jid,
        "delimiter" => options.target_options.delimiter.as_str(),
    };
    for (key, text) in [
        ("metadata", &options.metadata),
        ("ret_kwargs", &options.return_kwargs),
        ("module_executors", &options.module_executors),
        ("executor_opts", &options.executor_opts),
    ] {
        if let Some(text) = text {
            kwargs.set(key, yamlify_arg(text));
        }
    }
    if let Some(name) = &options.return_config {
        kwargs.set("ret_config", name.as_str());
    }
    if options.start_event {
        kwargs.set("start_event", true);
    }
    kwargs
}

fn preview(job: &Job, config: &MasterConfig, mut screen: Screen) -> i32 {
    let found = Target::parse(&job.tgt, &job.tgt_type, job.kwargs.str("delimiter"))
        .map_err(|e| e.to_string())
        .and_then(|target| {
            let fleet = Fleet::open(config).map_err(|e| e.to_string())?;
            let expected = target.expected(&fleet.inventory(), config);
            match expected.error {
                Some(why) => Err(why.to_string()),
                None => Ok(expected),
            }
        });
    match found {
        Ok(expected) => {
            if expected.minions.is_empty() {
                eprintln!("No minions matched the target.");
            }
            let ids: Vec<Value> = expected.minions.iter().map(Value::from).collect();
            let name = screen.out.clone().unwrap_or_else(|| "nested".into());
            screen.show(&name, &ids.into());
            0
        }
        Err(e) => fail(e, EXIT_NOTHING),
    }
}

/// Set by SIGINT or SIGTERM: waiting stops, the job continues.
pub(crate) fn stop_on_signal() -> StopFlag {
    StopFlag::install().unwrap_or_default()
}

struct JobRun {
    options: SaltOptions,
    screen: Screen,
}

impl JobRun {
    fn run(self, mut job: Job, config: MasterConfig) -> Result<i32, ClientError> {
        let jobs = halite_store::Stores::open(&config).jobs;
        let patience = GatherTimeouts {
            timeout: Duration::from_secs(self.options.timeout.unwrap_or(config.timeout)),
            find_job: Duration::from_secs(config.gather_job_timeout),
            together: true,
        };
        let summary = self.options.summary || config.cli_summary;
        let show_jid = self.options.show_jid || config.show_jid;
        let hide_timeout = self.options.hide_timeout || !config.show_timeout;
        let safe_limit = self
            .options
            .batch_safe_limit
            .unwrap_or(config.batch_safe_limit);
        let safe_size = self
            .options
            .batch_safe_size
            .unwrap_or(config.batch_safe_size);
        let mut client = match self.options.auth.client(config) {
            Ok(client) => client,
            Err(why) => return Ok(fail(why, EXIT_NOTHING)),
        };
        if self.options.here {
            client.only_here();
        }
        let mut events = client.listen()?;
        let stop = stop_on_signal();
        let progress = self.options.progress.then(StateProgress::new);
        let on_state = |id: &str, result: &halite_wire::Map, total| {
            if let Some(progress) = &progress {
                progress.show(Some(id), result, total);
            }
        };
        let mut session = JobSession {
            client: &mut client,
            events: &mut events,
            jobs: &*jobs,
            patience,
            stop: &stop,
            on_state: Some(&on_state),
        };
        if let Some(count) = self.options.subset {
            batch::pick_subset(&mut session, &mut job, count)?;
        }
        if self.options.progress
            && job
                .fun
                .as_str()
                .is_some_and(|fun| fun.starts_with("state."))
        {
            job.arg = with_state_events(std::mem::take(&mut job.arg));
        }
        let mut results = ResultPrinter::new(self.screen, &self.options, hide_timeout);
        let size = match &self.options.batch {
            Some(size) => Some(size.clone()),
            None if safe_limit > 0 && expected(session.client, &job) >= safe_limit as usize => {
                results.screen.text(texts::SWITCH_TO_BATCH);
                Some(safe_size.to_string())
            }
            None => None,
        };
        let is_asked = self.options.batch.is_some() || !self.options.detached;
        if let Some(size) = size.filter(|_| is_asked) {
            results.is_batch = true;
            let plan = batch::BatchOptions {
                size,
                wait: Duration::from_secs_f64(self.options.batch_wait.clamp(0.0, 86_400.0)),
                failhard: self.options.failhard,
            };
            if batch::is_size(&plan.size) && self.options.detached {
                return hand_over(&mut session, &job, &plan, results);
            } else if batch::is_size(&plan.size) {
                batch::run(&mut session, job, &plan, &mut results)?;
            } else {
                results.screen.text(&texts::invalid_batch(&plan.size));
            }
            let worst = results.worst();
            let status = results.finish(summary, self.options.verbose);
            return Ok(status.max(worst.clamp(0, 255) as i32));
        }
        let published = session.client.publish(&job)?;
        if published.jid.is_empty() {
            return Ok(no_minions(&mut results, &published));
        }
        if self.options.detached {
            results.screen.text(&texts::executed_async(&published.jid));
            return Ok(0);
        }
        if self.options.verbose {
            results.screen.text(&texts::executing_job(&published.jid));
        } else if show_jid {
            results.screen.text(&texts::show_jid(&published.jid));
        }
        results.expect(&published);
        batch::wait(&mut session, &published, &mut |id, outcome| {
            results.add(id, outcome)
        })?;
        if stop.is_set() {
            eprintln!(
                "Stopped waiting; the job continues. Its returns: halite-run jobs.lookup_jid {}",
                published.jid
            );
        }
        Ok(results.finish(summary, self.options.verbose))
    }
}

/// Asks state functions for an event of every result.
fn with_state_events(mut args: Vec<Value>) -> Vec<Value> {
    let keywords = args.iter_mut().rev().find_map(|arg| match arg {
        Value::Map(map) if map.contains("__kwarg__") => Some(map),
        _ => None,
    });
    match keywords {
        Some(map) if map.contains("state_events") => {}
        Some(map) => map.set("state_events", true),
        None => args.push(halite_wire::map! {"__kwarg__" => true, "state_events" => true}.into()),
    }
    args
}

/// Has the master run a batch (`--async`).
fn hand_over(
    session: &mut JobSession,
    job: &Job,
    plan: &batch::BatchOptions,
    mut results: ResultPrinter,
) -> Result<i32, ClientError> {
    let refused = |e: &dyn std::fmt::Display| {
        let why = format!(
            "the master cannot be given the batch: {e}; this needs its account, and the master must run"
        );
        Ok(fail(why, EXIT_NOTHING))
    };
    if let Err(e) = batch::can_hand_over(session.client.config()) {
        return refused(&e);
    }
    let found = batch::members(session, job, plan, &mut results)?;
    let Some((ids, places)) = found.filter(|(ids, _)| !ids.is_empty()) else {
        eprint!("{}", texts::NO_RETURN_RECEIVED);
        return Ok(EXIT_NOTHING);
    };
    // The record is the master's, as is the directory that it lies in.
    if nix::unistd::geteuid().is_root()
        && let Err(e) = drop_privileges(&session.client.config().user)
    {
        return Ok(fail(e, EXIT_NO_USER));
    }
    let part = (ids.as_slice(), places);
    match batch::hand_over(session.client, job, plan, session.patience, part) {
        Ok(jid) => {
            let text = texts::executed_async_batch(jid.as_str());
            results.screen.text(&text);
            Ok(0)
        }
        Err(e) => refused(&e),
    }
}

fn no_minions(results: &mut ResultPrinter, published: &Published) -> i32 {
    results.screen.text(texts::NO_MINIONS_MATCHED);
    results.show_nothing();
    if let Some(why) = published.error.as_deref().and_then(|e| e.split_once(": ")) {
        eprintln!("ERROR: {}", why.1);
    }
    eprint!("{}", texts::NO_RETURN_RECEIVED);
    EXIT_NOTHING
}

/// How many minions a job would reach, according to this host's caches.
fn expected(client: &LocalClient, job: &Job) -> usize {
    let target = Target::parse(&job.tgt, &job.tgt_type, job.kwargs.str("delimiter"));
    let (Ok(target), Ok(fleet)) = (target, Fleet::open(client.config())) else {
        return 0;
    };
    target
        .expected(&fleet.inventory(), client.config())
        .minions
        .len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_several_functions() {
        let split = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            functions("a.x,b.y,c.z", &words, ",", &[]).map(|(_, args)| args)
        };
        let lists = |lists: [&[&str]; 3]| {
            let list =
                |words: &[&str]| Value::Array(words.iter().map(|w| Value::from(*w)).collect());
            Ok(lists.map(list).to_vec())
        };
        assert_eq!(
            split(&["p", ",", "q", "r", ","]),
            lists([&["p"], &["q", "r"], &[]])
        );
        assert_eq!(split(&[",eins,zwei"]), lists([&[], &["eins"], &["zwei"]]));
        assert_eq!(split(&["p,q", "r,s"]), lists([&["p"], &["q", "r"], &["s"]]));
        assert_eq!(split(&[]), lists([&[], &[], &[]]));
        assert!(split(&["p", "q"]).is_err());
        assert!(split(&["p,q,r,s"]).is_err());
    }
}
