//! Functions that run states.

use super::control;
use crate::declare::RunData;
use crate::runner::{MinionStates, Progress, file_client};
use crate::source::MinionSls;
use crate::top::{Matches, Top};
use halite_channel::pillar_request::PillarQuery;
use halite_config::paths::minion::cache;
use halite_modules::execution::declare::Result;
use halite_modules::execution::{Call, CallError, Context, python, template_functions};
use halite_modules::files::FileClient;
use halite_modules::pillar;
use halite_render::state::compile::{CompileOptions, Compiled, compile, resolve};
use halite_render::state::highstate::{HighData, render_highstate};
use halite_render::state::result::check_result;
use halite_render::state::run::{RunOptions, StateModules, run};
use halite_wire::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Exit statuses of `salt/defaults/exitcodes.py`.
const EX_STATE_COMPILER_ERROR: i64 = 1;
const EX_STATE_FAILURE: i64 = 2;
pub(super) const EX_PILLAR_FAILURE: i64 = 5;
/// How often a queued run looks whether it is its turn.
const QUEUE_INTERVAL: Duration = Duration::from_secs(1);

/// The messages that end a call before states run, or an error.
pub(super) enum Refusal {
    Messages(Vec<String>, i64),
    Fault(CallError),
}

impl From<CallError> for Refusal {
    fn from(fault: CallError) -> Refusal {
        Refusal::Fault(fault)
    }
}

impl Refusal {
    /// What the function returns then.
    pub(super) fn into_return(self, call: &mut Call<'_>) -> Result {
        match self {
            Refusal::Messages(list, retcode) => {
                call.retcode = retcode.into();
                Ok(list.into())
            }
            Refusal::Fault(fault) => Err(fault),
        }
    }
}

fn compiler_error(errors: Vec<String>) -> Refusal {
    Refusal::Messages(errors, EX_STATE_COMPILER_ERROR)
}

/// A keyword, declared or not.
pub(super) fn keyword<'c>(call: &'c Call<'_>, name: &str) -> &'c Value {
    const NIL: &Value = &Value::Nil;
    match call.arg(name) {
        Value::Nil => call.bound.kwargs.get(name).unwrap_or(NIL),
        value => value,
    }
}

fn text_of(call: &Call<'_>, name: &str) -> Option<String> {
    match keyword(call, name) {
        Value::Nil => None,
        value => Some(python::str(value)),
    }
}

/// Names separated by commas, or a list of names.
pub(super) fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Nil => Vec::new(),
        other => python::str(other)
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect(),
    }
}

/// What a state function works with: the minion with the options, grains and pillar of the run.
pub(super) struct Session {
    pub ctx: Context,
    pub client: FileClient,
    jid: String,
}

impl Session {
    /// Waits for other runs, and sets up options and pillar.
    pub(super) fn open(call: &mut Call<'_>) -> std::result::Result<Session, Refusal> {
        queue(call)?;
        let mut ctx = call.ctx.clone();
        let client = file_client(&ctx)?;
        if let Some(local) = text_of(call, "localconfig") {
            override_options(&mut ctx.opts, Path::new(&local))?;
        }
        merge_master_options(&mut ctx.opts, &client)?;
        for key in ["saltenv", "pillarenv"] {
            if let Some(env) = text_of(call, key) {
                ctx.opts.set(key, env);
            }
        }
        let saltenv = ctx.opts.str("saltenv").map(str::to_owned);
        if ctx.opts.get("lock_saltenv").is_some_and(Value::truthy)
            && let Some(given) = text_of(call, "saltenv")
            && call.ctx.opts.str("saltenv") != Some(&given)
        {
            let locked = call.ctx.opts.str("saltenv").unwrap_or("base");
            return Err(CallError::Command(format!(
                "lock_saltenv is enabled, saltenv cannot be changed (it is {locked})"
            ))
            .into());
        }
        let test = match keyword(call, "test") {
            Value::Nil => ctx.opts.get("test").is_some_and(Value::truthy),
            given => given.truthy(),
        };
        ctx.opts.set("test", test);
        let masterless = ctx.job.as_ref().and_then(|job| job.str("tgt")) == Some("salt-call");
        ctx.opts.set(
            "__cli",
            if masterless {
                "salt-call"
            } else {
                "salt-minion"
            },
        );
        load_pillar(call, &mut ctx, saltenv)?;
        let jid = ctx
            .job
            .as_ref()
            .and_then(|job| job.str("jid"))
            .unwrap_or_default()
            .to_owned();
        Ok(Session { ctx, client, jid })
    }

    fn flag(&self, key: &str) -> bool {
        self.ctx.opts.get(key).is_some_and(Value::truthy)
    }

    pub(super) fn saltenv(&self) -> String {
        self.ctx
            .opts
            .str("saltenv")
            .filter(|env| !env.is_empty())
            .unwrap_or("base")
            .to_owned()
    }

    fn auto_order(&self) -> bool {
        self.ctx
            .opts
            .get("state_auto_order")
            .is_none_or(Value::truthy)
    }

    /// The high data of SLS files by environment, and the messages about errors in them.
    pub(super) fn render(&self, matches: &Matches) -> Result<HighData> {
        let mut source = MinionSls::new(&self.ctx, &self.client)?;
        Ok(render_highstate(&mut source, matches, self.auto_order()))
    }

    /// The SLS files of the top files.
    pub(super) fn matches(&self) -> std::result::Result<Matches, Refusal> {
        let source = MinionSls::new(&self.ctx, &self.client)?;
        let mut errors = Vec::new();
        let top = Top::read(&self.ctx, &source, &mut errors)?;
        if !errors.is_empty() {
            return Err(compiler_error(errors));
        }
        Ok(top.matches(&self.ctx, &self.client)?)
    }

    /// The high data of SLS files in the environment of the run.
    pub(super) fn high_of(&self, mods: &[String]) -> std::result::Result<Map, Refusal> {
        let found = self.render(&vec![(self.saltenv(), mods.to_vec())])?;
        if found.errors.is_empty() {
            Ok(found.high)
        } else {
            Err(compiler_error(found.errors))
        }
    }

    fn rules(&self, call: &Call<'_>) -> CompileOptions {
        CompileOptions {
            disabled_requisites: self
                .ctx
                .opts
                .get("disabled_requisites")
                .map(Value::str_list)
                .unwrap_or_default(),
            watching: crate::watching().map(str::to_owned).collect(),
            orchestration_jid: text_of(call, "orchestration_jid"),
        }
    }

    /// Compiles high data.
    pub(super) fn compile(
        &self,
        call: &Call<'_>,
        mut high: Map,
    ) -> std::result::Result<Compiled, Refusal> {
        let rules = self.rules(call);
        resolve(&mut high, &rules).map_err(compiler_error)?;
        compile(&high, &rules).map_err(compiler_error)
    }

    /// Compiles high data without `extend`, `exclude` and `*_in`, as `state.show_low_sls` of stock does.
    pub(super) fn compile_as_is(
        &self,
        call: &Call<'_>,
        high: &Map,
    ) -> std::result::Result<Compiled, Refusal> {
        compile(high, &self.rules(call)).map_err(compiler_error)
    }

    /// Makes the calls; the results by tag.
    fn run(&self, call: &mut Call<'_>, compiled: Compiled) -> Value {
        let events = match keyword(call, "state_events") {
            Value::Nil => self.flag("state_events"),
            given => given.truthy(),
        };
        let progress = Progress {
            events,
            jid: self.jid.clone(),
            total: compiled.graph.chunks.len(),
        };
        let pauses = (!self.jid.is_empty() && !self.jid.contains('/'))
            .then(|| cache::state_pause(&self.ctx.cachedir).join(&self.jid));
        let mut states = MinionStates::new(self.ctx.clone(), progress, pauses.clone());
        states.mock = keyword(call, "mock").truthy();
        states.run = Arc::new(RunData::new(compiled.graph.chunks.clone()));
        let options = RunOptions {
            test: self.flag("test"),
            failhard: self.flag("failhard"),
            max_parallel: self
                .ctx
                .opts
                .int("state_max_parallel")
                .and_then(|n| n.try_into().ok())
                .unwrap_or(0),
        };
        let results = run(&states as &dyn StateModules, compiled, &options);
        if let Some(path) = pauses {
            // It was for this run.
            let _ = std::fs::remove_file(path);
        }
        let results = Value::from(results);
        if !check_result(&results, false) {
            call.retcode = EX_STATE_FAILURE.into();
        }
        results
    }

    /// Compiles and runs high data.
    pub(super) fn apply(&self, call: &mut Call<'_>, high: Map) -> Result {
        let compiled = match self.compile(call, high) {
            Ok(compiled) => compiled,
            Err(refusal) => return refusal.into_return(call),
        };
        Ok(self.run(call, compiled))
    }
}

/// Overrides options by those of a file (`localconfig`).
fn override_options(opts: &mut Map, path: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(path).map_err(|e| python::os_error(&e, &path.to_string_lossy()))?;
    let parsed = halite_wire::yaml::parse(&text)
        .ok()
        .and_then(Value::into_map);
    let more = parsed.ok_or_else(|| {
        CallError::Command(format!("{}: this is not a map in YAML", path.display()))
    })?;
    for (key, value) in more.0 {
        if let Some(key) = key.as_str() {
            opts.set(key, value.clone());
        }
    }
    Ok(())
}

/// The options of states that the master decides (`salt/state.py BaseHighState.__gen_opts`).
fn merge_master_options(opts: &mut Map, client: &FileClient) -> Result<()> {
    let local = opts.str("file_client") == Some("local");
    if local {
        return Ok(());
    }
    let master = client.master_opts()?;
    for key in [
        "renderer",
        "state_top",
        "state_top_saltenv",
        "nodegroups",
        "state_auto_order",
        "top_file_merging_strategy",
        "env_order",
        "default_top",
        "jinja_env",
        "jinja_sls_env",
        "jinja_lstrip_blocks",
        "jinja_trim_blocks",
        "file_roots",
    ] {
        if let Some(value) = master.get(key).filter(|value| !value.is_nil()) {
            opts.set(key, value.clone());
        }
    }
    for key in ["failhard", "state_events", "state_aggregate"] {
        if master.get(key).is_some_and(Value::truthy) {
            opts.set(key, master.get(key).cloned());
        }
    }
    Ok(())
}

/// The pillar of the run: with the caller's own data on top, and fresh in a job from a master.
fn load_pillar(
    call: &mut Call<'_>,
    ctx: &mut Context,
    saltenv: Option<String>,
) -> std::result::Result<(), Refusal> {
    let mut given = keyword(call, "pillar").clone();
    if let Some(renderer) = text_of(call, "pillar_enc") {
        pillar::decrypt_given(&ctx.opts, &mut given, &renderer.to_lowercase())
            .map_err(CallError::Command)?;
    }
    let given = match given {
        Value::Nil => Map::new(),
        Value::Map(map) => map,
        _ => {
            return Err(CallError::Invocation(
                "Pillar data must be formatted as a dictionary, unless pillar_enc is specified."
                    .to_owned(),
            )
            .into());
        }
    };
    let from_master = ctx.opts.str("__cli") == Some("salt-minion");
    let other_env = ["saltenv", "pillarenv"]
        .iter()
        .any(|key| ctx.opts.get(key) != call.ctx.opts.get(key));
    if from_master || other_env || !given.is_empty() {
        let query = PillarQuery {
            saltenv,
            pillarenv: ctx.opts.str("pillarenv").map(str::to_owned),
            pillar_override: given,
            ..PillarQuery::default()
        };
        ctx.pillar = Arc::new(pillar::compile_fresh(ctx, &query, template_functions)?);
    }
    let errors = ctx
        .pillar
        .get("_errors")
        .map(Value::str_list)
        .unwrap_or_default();
    if !errors.is_empty() && !keyword(call, "force").truthy() {
        let mut list = vec!["Pillar failed to render with the following messages:".to_owned()];
        list.extend(errors);
        return Err(Refusal::Messages(list, EX_PILLAR_FAILURE));
    }
    Ok(())
}

/// Waits until no other state run is active, or says which are (`_check_queue`).
fn queue(call: &mut Call<'_>) -> std::result::Result<(), Refusal> {
    if keyword(call, "concurrent").truthy() {
        return Ok(());
    }
    let wanted = match keyword(call, "queue") {
        Value::Nil => call
            .ctx
            .opts
            .get("state_queue")
            .cloned()
            .unwrap_or_default(),
        given => given.clone(),
    };
    let most = match &wanted {
        Value::Int(most) => Some(*most),
        _ => None,
    };
    let jid = call
        .ctx
        .job
        .as_ref()
        .and_then(|job| job.str("jid"))
        .unwrap_or_default()
        .to_owned();
    if let Some(most) = most.filter(|most| *most > 0)
        && i64::try_from(control::older(call, &jid)).unwrap_or(i64::MAX) >= most
    {
        let active = control::messages(call);
        return Err(compiler_error(active));
    }
    if wanted.truthy() {
        while control::older(call, &jid) > 0 {
            std::thread::sleep(QUEUE_INTERVAL);
        }
        return Ok(());
    }
    let active = control::messages(call);
    if active.is_empty() {
        Ok(())
    } else {
        Err(compiler_error(active))
    }
}

/// Messages about SLS files or states that `state.disable` has disabled.
pub(super) fn disabled(call: &mut Call<'_>, wanted: &[String]) -> std::result::Result<(), Refusal> {
    let list = control::disabled(call)?;
    let list: Vec<String> = list.iter().map(python::str).collect();
    let mut messages = Vec::new();
    for state in wanted {
        let text = if list.contains(state) {
            format!(
                "The state file \"{state}\" is currently disabled, to re-enable, run state.enable {state}."
            )
        } else if let Some(globbed) = list.iter().find(|name| {
            let dir = name.strip_suffix(".*");
            dir.is_some_and(|dir| {
                state
                    .strip_prefix(dir)
                    .is_some_and(|rest| rest.starts_with('.'))
            })
        }) {
            format!(
                "The state file \"{state}\" is currently disabled by \"{globbed}\", to re-enable, run state.enable {globbed}."
            )
        } else {
            continue;
        };
        messages.push(text);
    }
    if messages.is_empty() {
        Ok(())
    } else {
        Err(compiler_error(messages))
    }
}

/// Adds `exclude` to high data.
fn exclude(call: &Call<'_>, high: &mut Map) {
    let more = match keyword(call, "exclude") {
        Value::Nil => return,
        Value::Array(list) => list.clone(),
        other => names(other).into_iter().map(Value::from).collect(),
    };
    match high.get_mut("__exclude__") {
        Some(Value::Array(list)) => list.extend(more),
        _ => high.set("__exclude__", more),
    }
}

/// `let value = ready!(call, result)`: a refusal is the function's return.
macro_rules! ready {
    ($call:expr, $result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => {
                return $crate::functions::run::Refusal::from(refusal).into_return($call)
            }
        }
    };
}
pub(super) use ready;

pub(super) fn apply(call: &mut Call<'_>) -> Result {
    if call.flag("mods") {
        return sls(call);
    }
    highstate(call)
}

pub(super) fn as_test(call: &mut Call<'_>) -> Result {
    let (args, mut kwargs) = (call.bound.varargs.clone(), call.bound.kwargs.clone());
    kwargs.set("test", true);
    call.salt("state.apply", args, kwargs)
}

/// Synchronizes modules before the run (`sync_mods`).
fn sync(call: &mut Call<'_>) -> Result<()> {
    let kinds = match keyword(call, "sync_mods").clone() {
        Value::Bool(true) => vec!["all".to_owned()],
        value if value.truthy() => names(&value),
        _ => return Ok(()),
    };
    for kind in kinds {
        call.salt(&format!("saltutil.sync_{kind}"), Vec::new(), Map::new())?;
    }
    Ok(())
}

pub(super) fn sls(call: &mut Call<'_>) -> Result {
    let mods = names(call.arg("mods"));
    let session = ready!(call, Session::open(call));
    ready!(call, disabled(call, &mods));
    sync(call)?;
    let mut high = ready!(call, session.high_of(&mods));
    exclude(call, &mut high);
    session.apply(call, high)
}

pub(super) fn highstate(call: &mut Call<'_>) -> Result {
    ready!(call, disabled(call, &["highstate".to_owned()]));
    let session = ready!(call, Session::open(call));
    let matches = ready!(call, session.matches());
    run_matches(call, &session, &matches)
}

fn run_matches(call: &mut Call<'_>, session: &Session, matches: &Matches) -> Result {
    if matches.iter().all(|(_, names)| names.is_empty()) {
        let why =
            "No Top file or master_tops data matches found. Please see master log for details.";
        return Ok(no_states(call, why));
    }
    let found = session.render(matches)?;
    if !found.errors.is_empty() {
        return compiler_error(found.errors).into_return(call);
    }
    let mut high = found.high;
    let wanted = ["whitelist"]
        .iter()
        .map(|key| names(keyword(call, key)))
        .find(|list| !list.is_empty());
    if let Some(only) = wanted {
        high.0.retain(|(_, body)| {
            let sls = body.as_map().and_then(|body| body.str("__sls__"));
            sls.is_none_or(|sls| only.iter().any(|name| name == sls))
        });
    }
    exclude(call, &mut high);
    if high.is_empty() {
        return Ok(no_states(call, "No states found for this minion"));
    }
    session.apply(call, high)
}

/// What a highstate without states returns.
fn no_states(call: &mut Call<'_>, why: &str) -> Value {
    call.retcode = EX_STATE_FAILURE.into();
    let mut all = Map::new();
    all.set(
        "no_|-states_|-states_|-None",
        halite_wire::map! {
            "result" => false, "comment" => why, "name" => "No States", "changes" => Map::new(),
            "__run_num__" => 0,
        },
    );
    all.into()
}

pub(super) fn top(call: &mut Call<'_>) -> Result {
    let mut session = ready!(call, Session::open(call));
    let name = call.text("topfn").unwrap_or_default();
    let url = match name.starts_with("salt://") {
        true => name,
        false => format!("salt://{name}"),
    };
    session.ctx.opts.set("state_top", url);
    let matches = ready!(call, session.matches());
    run_matches(call, &session, &matches)
}

pub(super) fn sls_id(call: &mut Call<'_>) -> Result {
    let (id, mods) = (call.text("id").unwrap_or_default(), names(call.arg("mods")));
    let session = ready!(call, Session::open(call));
    let high = ready!(call, session.high_of(&mods));
    let mut compiled = ready!(call, session.compile(call, high));
    let chunks = &compiled.graph.chunks;
    compiled
        .order
        .retain(|&at| chunks[at].str("__id__") == Some(&id));
    if compiled.order.is_empty() {
        return Err(CallError::Invocation(format!(
            "No matches for ID '{id}' found in SLS '{}' within saltenv '{}'",
            mods.join(","),
            session.saltenv()
        )));
    }
    Ok(session.run(call, compiled))
}

pub(super) fn high(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let Value::Map(mut data) = call.arg("data").clone() else {
        return Err(CallError::Invocation(
            "data must be a map, as in an SLS file".to_owned(),
        ));
    };
    for (_, body) in &mut data.0 {
        if let Value::Map(body) = body
            && !body.contains("__env__")
        {
            body.set("__env__", session.saltenv());
        }
    }
    session.apply(call, data)
}

/// One call without requisites.
fn one(call: &mut Call<'_>, session: &Session, low: Map) -> Result {
    let states = MinionStates::new(session.ctx.clone(), Progress::default(), None);
    let fun = format!(
        "{}.{}",
        low.str("state").unwrap_or_default(),
        low.str("fun").unwrap_or_default()
    );
    let why = match states.has(&fun) {
        false => Some(format!("Specified state '{fun}' was not found")),
        true => states.missing_argument(&low),
    };
    if let Some(why) = why {
        return compiler_error(vec![why]).into_return(call);
    }
    if low.str("name").is_none() {
        let name = low.get("name").unwrap_or(&Value::Nil);
        let why = format!(
            "ID '{}' is not formed as a string, but is a {}",
            python::str(name),
            python::type_name(name)
        );
        return compiler_error(vec![why]).into_return(call);
    }
    let mut compiled = Compiled::default();
    compiled.graph.add(low);
    compiled.order = vec![0];
    Ok(session.run(call, compiled))
}

pub(super) fn low(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let Value::Map(mut data) = call.arg("data").clone() else {
        return Err(CallError::Invocation(
            "data must be a map with state, fun and name".to_owned(),
        ));
    };
    for key in ["state", "fun", "name"] {
        if data.str(key).is_none() {
            return compiler_error(vec![format!("Missing \"{key}\" data")]).into_return(call);
        }
    }
    if !data.contains("__id__") {
        let name = data.get("name").cloned();
        data.set("__id__", name);
    }
    let ret = one(call, &session, data)?;
    // One result, without its tag.
    Ok(match ret {
        Value::Map(mut map) if map.len() == 1 => map.0.remove(0).1,
        other => other,
    })
}

pub(super) fn single(call: &mut Call<'_>) -> Result {
    let fun = call.text("fun").unwrap_or_default();
    let Some((state, function)) = fun.split_once('.') else {
        call.retcode = EX_STATE_COMPILER_ERROR.into();
        return Ok("Invalid function passed".into());
    };
    let name = call.arg("name").clone();
    let mut low = Map::new();
    for (key, value) in call.bound.kwargs.iter() {
        let engine = [
            "pillar",
            "pillarenv",
            "pillar_enc",
            "saltenv",
            "mock",
            "concurrent",
            "localconfig",
            "state_events",
            "orchestration_jid",
        ];
        if let Some(key) = key
            .as_str()
            .filter(|key| (!key.starts_with("__") || *key == "__env__") && !engine.contains(key))
        {
            low.set(key, value.clone());
        }
    }
    low.set("state", state);
    low.set("fun", function);
    low.set("__id__", name.clone());
    low.set("name", name);
    let session = ready!(call, Session::open(call));
    if low.contains("saltenv") || text_of(call, "saltenv").is_some() {
        low.set("__env__", session.saltenv());
    }
    one(call, &session, low)
}

pub(super) fn template(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let tem = call.text("tem").unwrap_or_default();
    let tem = tem
        .strip_suffix(".sls")
        .map_or(tem.clone(), |name| name.replace('/', "."));
    let path = Path::new(&tem);
    if path.is_file() {
        let text = std::fs::read_to_string(path).map_err(|e| python::os_error(&e, &tem))?;
        return run_text(call, &session, &text, &tem);
    }
    let high = ready!(call, session.high_of(&[tem]));
    session.apply(call, high)
}

pub(super) fn template_str(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let text = call.text("tem").unwrap_or_default();
    run_text(call, &session, &text, ":string:")
}

fn run_text(call: &mut Call<'_>, session: &Session, text: &str, path: &str) -> Result {
    struct Text<'a>(&'a MinionSls<'a>, &'a str, &'a str);
    impl halite_render::state::highstate::SlsSource for Text<'_> {
        fn available(&self, _: &str) -> Option<Vec<String>> {
            Some(vec!["<template-str>".to_owned()])
        }

        fn render(
            &mut self,
            saltenv: &str,
            sls: &str,
        ) -> std::result::Result<Option<halite_render::state::highstate::RenderedSls>, String>
        {
            let data = self.0.text(self.1, self.2, saltenv, sls)?;
            Ok(Some(halite_render::state::highstate::RenderedSls {
                data,
                init: false,
            }))
        }
    }
    let source = MinionSls::new(&session.ctx, &session.client)?;
    if let Ok(Value::Map(data)) = source.text(text, path, &session.saltenv(), "") {
        let invalid = |key: &&str| data.contains(key);
        let errors = ["include", "exclude", "extends"].iter().filter(|key| invalid(key)).map(|key| {
            format!("The '{key}' declaration found on '<template-str>' is invalid when rendering single templates")
        });
        let errors: Vec<String> = errors.collect();
        if !errors.is_empty() {
            return compiler_error(errors).into_return(call);
        }
    }
    let matches = [(session.saltenv(), vec!["<template-str>".to_owned()])];
    let found = render_highstate(
        &mut Text(&source, text, path),
        &matches,
        session.auto_order(),
    );
    if !found.errors.is_empty() {
        return compiler_error(found.errors).into_return(call);
    }
    let mut high = found.high;
    for (_, body) in &mut high.0 {
        if let Value::Map(body) = body {
            body.remove("__sls__");
        }
    }
    session.apply(call, high)
}

pub(super) fn not_over_ssh(_: &mut Call<'_>) -> Result {
    Err(CallError::Command(
        "state.pkg runs what salt-ssh has packed; this minion is not run by salt-ssh".to_owned(),
    ))
}

/// Whether a run may go on with a state: waits while it is paused, ends after `state.soft_kill`.
pub(crate) fn may_continue(pauses: &Path, id: &str) -> bool {
    loop {
        if !pauses.exists() {
            return true;
        }
        let mut all = control::read(pauses);
        let mut wait = None;
        for key in [id, control::ALL] {
            let Some(Value::Map(pause)) = all.get(key) else {
                continue;
            };
            if pause.get("kill").is_some_and(Value::truthy) {
                return false;
            }
            wait = Some((key.to_owned(), pause.int("duration")));
        }
        let Some((key, duration)) = wait else {
            return true;
        };
        match duration {
            Some(seconds) => {
                std::thread::sleep(Duration::from_secs(seconds.max(0).unsigned_abs()));
                all.remove(&key);
                if control::save(pauses, &all).is_err() {
                    return true;
                }
            }
            None => std::thread::sleep(QUEUE_INTERVAL),
        }
    }
}
