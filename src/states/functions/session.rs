//! What a call of `state.*` works with: waiting for other runs, options, pillar, compiling.

use super::control;
use crate::declare::RunData;
use crate::runner::{MinionStates, Progress};
use crate::slots::AllowedSlots;
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
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Exit statuses of `salt/defaults/exitcodes.py`.
pub(super) const EX_STATE_COMPILER_ERROR: i64 = 1;
pub(super) const EX_STATE_FAILURE: i64 = 2;
pub(super) const EX_PILLAR_FAILURE: i64 = 5;
/// How often a queued run looks whether it is its turn.
const QUEUE_INTERVAL: Duration = Duration::from_millis(100);

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

pub(super) fn compiler_error(errors: Vec<String>) -> Refusal {
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

pub(super) fn text_of(call: &Call<'_>, name: &str) -> Option<String> {
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
    client: Rc<FileClient>,
    /// The SLS files, listed and fetched once.
    pub source: MinionSls,
    jid: String,
    /// Whether what runs is rendered from SLS files.
    from_files: Cell<bool>,
}

/// Whether states are only tested, if the call does not say so (`salt/modules/state.py _get_test_value`): `test: true` in grains,
/// pillar, the master's options in it, or the minion's own options.
fn is_test(ctx: &Context) -> bool {
    let of_master = ctx.pillar.get("master").and_then(Value::as_map);
    let places = [Some(&*ctx.grains), Some(&*ctx.pillar), of_master];
    let told = places.into_iter().flatten().find_map(|map| map.get("test"));
    told == Some(&Value::Bool(true)) || ctx.opts.get("test").is_some_and(Value::truthy)
}

/// Sets the option `test` of a run: what the call says, else what holds for this minion.
fn decide_test(call: &Call<'_>, ctx: &mut Context) {
    let test = match keyword(call, "test") {
        Value::Nil => is_test(ctx),
        given => given.truthy(),
    };
    Arc::make_mut(&mut ctx.opts).set("test", test);
}

impl Session {
    /// Waits for other runs, and sets up options and pillar.
    pub(super) fn open(call: &mut Call<'_>) -> std::result::Result<Session, Refusal> {
        queue(call)?;
        let mut ctx = call.ctx.clone();
        let client = Rc::new(FileClient::new(&ctx).map_err(CallError::from)?);
        if let Some(local) = text_of(call, "localconfig") {
            override_options(Arc::make_mut(&mut ctx.opts), Path::new(&local))?;
        }
        merge_master_options(Arc::make_mut(&mut ctx.opts), &client)?;
        for key in ["saltenv", "pillarenv"] {
            if let Some(env) = text_of(call, key) {
                Arc::make_mut(&mut ctx.opts).set(key, env);
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
        decide_test(call, &mut ctx);
        let masterless = ctx.job.as_ref().and_then(|job| job.str("tgt")) == Some("salt-call");
        Arc::make_mut(&mut ctx.opts).set(
            "__cli",
            if masterless {
                "salt-call"
            } else {
                "salt-minion"
            },
        );
        load_pillar(call, &mut ctx, saltenv)?;
        Session::of(call, ctx, client)
    }

    /// With files, grains and pillar of the caller's. Waits for other runs, too.
    pub(super) fn with(
        call: &mut Call<'_>,
        mut ctx: Context,
    ) -> std::result::Result<Session, Refusal> {
        queue(call)?;
        decide_test(call, &mut ctx);
        let client = Rc::new(FileClient::new(&ctx).map_err(CallError::from)?);
        Session::of(call, ctx, client)
    }

    fn of(
        call: &Call<'_>,
        ctx: Context,
        client: Rc<FileClient>,
    ) -> std::result::Result<Session, Refusal> {
        Ok(Session {
            source: MinionSls::new(&ctx, client.clone())?,
            jid: control::own_jid(call).to_owned(),
            ctx,
            client,
            from_files: Cell::new(false),
        })
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

    pub(super) fn auto_order(&self) -> bool {
        self.ctx
            .opts
            .get("state_auto_order")
            .is_none_or(Value::truthy)
    }

    /// The high data of SLS files by environment, and the messages about errors in them.
    pub(super) fn render(&self, matches: &Matches) -> HighData {
        self.from_files.set(true);
        render_highstate(&mut &self.source, matches, self.auto_order())
    }

    /// The SLS files of the top files.
    pub(super) fn matches(&self) -> std::result::Result<Matches, Refusal> {
        let mut errors = Vec::new();
        let top = Top::read(&self.ctx, &self.source, &mut errors)?;
        if !errors.is_empty() {
            return Err(compiler_error(errors));
        }
        Ok(top.matches(&self.ctx, &self.client)?)
    }

    /// The high data of SLS files in the environment of the run.
    pub(super) fn high_of(&self, mods: &[String]) -> std::result::Result<Map, Refusal> {
        let found = self.render(&vec![(self.saltenv(), mods.to_vec())]);
        if found.errors.is_empty() {
            Ok(found.high)
        } else {
            Err(compiler_error(found.errors))
        }
    }

    pub(super) fn rules(&self, call: &Call<'_>, high: &Map) -> CompileOptions {
        CompileOptions {
            disabled_requisites: self
                .ctx
                .opts
                .get("disabled_requisites")
                .map(Value::str_list)
                .unwrap_or_default(),
            watching: crate::watching()
                .map(str::to_owned)
                .chain(crate::runner::python_states::watching(&self.ctx, high))
                .collect(),
            orchestration_jid: text_of(call, "orchestration_jid"),
        }
    }

    /// Compiles high data.
    pub(super) fn compile(
        &self,
        call: &Call<'_>,
        mut high: Map,
    ) -> std::result::Result<Compiled, Refusal> {
        let rules = self.rules(call, &high);
        resolve(&mut high, &rules).map_err(compiler_error)?;
        compile(high, &rules).map_err(compiler_error)
    }

    /// Compiles high data without `extend`, `exclude` and `*_in`, as `state.show_low_sls` of stock does.
    pub(super) fn compile_as_is(
        &self,
        call: &Call<'_>,
        high: Map,
    ) -> std::result::Result<Compiled, Refusal> {
        let rules = self.rules(call, &high);
        compile(high, &rules).map_err(compiler_error)
    }

    /// Makes the calls; the results by tag.
    pub(super) fn run(&self, call: &mut Call<'_>, compiled: Compiled) -> Value {
        let events = match keyword(call, "state_events") {
            Value::Nil => self.flag("state_events"),
            given => given.truthy(),
        };
        let progress = Progress {
            may_continue: control::may_continue,
            events,
            jid: self.jid.clone(),
            total: compiled.graph.chunks.len(),
        };
        let pauses = (!self.jid.is_empty() && !self.jid.contains('/'))
            .then(|| cache::state_pause(&self.ctx.cachedir).join(&self.jid));
        let mut states = MinionStates::new(self.ctx.clone(), progress, pauses.clone());
        states.mock = keyword(call, "mock").truthy();
        states.run = Arc::new(RunData::new(compiled.graph.chunks.clone()));
        if self.from_files.get() {
            states.slots = AllowedSlots::written();
        }
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
            ..PillarQuery::of(&ctx.opts)
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
    let jid = control::own_jid(call).to_owned();
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
pub(super) fn exclude(call: &Call<'_>, high: &mut Map) {
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
                return $crate::functions::session::Refusal::from(refusal).into_return($call)
            }
        }
    };
}
pub(super) use ready;
