//! Compiles pillars: for a minion without a master, from its own `pillar_roots` and `ext_pillar`
//! (`salt/pillar/__init__.py get_pillar`); otherwise requests a new one from the master.

use crate::context::{CallError, Context};
use crate::render::{CallerFactory, SaltFunctions};
use halite_channel::MinionError;
use halite_channel::channel::{Channel, Reply};
use halite_channel::link::LinkError;
use halite_channel::pillar_request::Wish;
use halite_config::{ConfigError, MASTER_OPTIONS, MasterConfig};
use halite_render::pillar::{PillarMaster, PillarRequest};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a local compilation.
const LONGEST: Duration = Duration::from_secs(300);
/// Stack size of the compiling thread.
const STACK: usize = 8 << 20;

/// Minion options used to compile its own pillar, in addition to those only external pillars know.
const OPTIONS: &[&str] = &[
    "cachedir",
    "ext_pillar",
    "ext_pillar_first",
    "file_roots",
    "hash_type",
    "on_demand_ext_pillar",
    "pillar_includes_override_sls",
    "pillar_merge_lists",
    "pillar_opts",
    "pillar_roots",
    "pillar_safe_render_error",
    "pillar_source_merging_strategy",
    "pillarenv",
    "pillarenv_from_saltenv",
    "renderer",
    "renderer_blacklist",
    "renderer_whitelist",
    "state_top",
];
/// Prefixes of more such options.
const FAMILIES: &[&str] = &["decrypt_pillar", "git_pillar_", "gpg_", "jinja_"];

/// Whether the pillar is compiled here.
pub fn is_local(opts: &Map) -> bool {
    match opts.str("file_client") {
        Some("local") => !opts.get("use_master_when_local").is_some_and(Value::truthy),
        _ => opts.str("master_type") == Some("disable"),
    }
}

/// Compiles this minion's pillar from its own files; templates call `functions`.
///
/// # Errors
/// Invalid options or id, or a fatal error. Errors in pillar files are in the pillar itself, under `_errors`.
pub fn local(
    opts: &Map,
    grains: &Map,
    wish: &Wish,
    functions: CallerFactory,
) -> Result<Map, MinionError> {
    // Nested templates need more stack than the daemon's threads have.
    let compiled = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("pillar".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || compile(opts, grains, wish, functions))
            .map(|thread| thread.join())
    });
    match compiled? {
        Ok(pillar) => pillar,
        Err(_) => Err(MinionError::new(
            1,
            "the pillar: its compilation broke down",
        )),
    }
}

fn compile(
    opts: &Map,
    grains: &Map,
    wish: &Wish,
    functions: CallerFactory,
) -> Result<Map, MinionError> {
    let bad = |e: &dyn std::fmt::Display| MinionError::new(1, format!("the pillar: {e}"));
    let id = opts.str("id").unwrap_or_default();
    let id: MinionId = id.parse().map_err(|e| bad(&e))?;
    let config = as_master(opts).map_err(|e| bad(&e))?;
    let mut request = PillarRequest::new(id, Map::new());
    request.grains = Rc::new(grains.clone());
    request.saltenv = wish.saltenv.clone();
    request.pillarenv = wish.pillarenv.clone();
    request.pillar_override = wish.pillar_override.clone();
    request.ext = wish.ext.clone();
    let ctx = Context {
        id: request.id.as_str().to_owned(),
        grains: Arc::new(grains.clone()),
        opts: opts.clone(),
        cachedir: config.cachedir.clone(),
        ..Context::default()
    };
    let functions = SaltFunctions(functions(ctx));
    PillarMaster::standalone(&config, opts.clone(), Rc::new(functions))
        .compile(&request, LONGEST)
        .map_err(|e| bad(&e))
}

/// Decrypts a caller's pillar data with the minion's own keys.
///
/// # Errors
/// Invalid data or renderer.
pub fn decrypt_given(opts: &Map, given: &mut Value, pillar_enc: &str) -> Result<(), String> {
    let config = as_master(opts).map_err(|e| e.to_string())?;
    halite_render::gpg::decrypt_given(&config, given, pillar_enc)
}

/// The options in a master's form; `gpg` keys are beside the minion's configuration.
fn as_master(opts: &Map) -> Result<MasterConfig, ConfigError> {
    let conf_file = Path::new(opts.str("conf_file").unwrap_or("/"));
    let dir = conf_file.parent().unwrap_or(conf_file);
    MasterConfig::from_map(master_options(opts), dir)
}

/// The options in a master's form: those on pillars, and those only external pillars know.
fn master_options(opts: &Map) -> Map {
    let fits = |key: &str| {
        OPTIONS.contains(&key)
            || FAMILIES.iter().any(|family| key.starts_with(family))
            || !MASTER_OPTIONS.iter().any(|option| option.name == key)
    };
    let known = |key: &Value| key.as_str().is_some_and(fits);
    let mut out: Map = opts.iter().filter(|(key, _)| known(key)).cloned().collect();
    for key in ["conf_file", "__role", "grains", "id", "pillar"] {
        out.remove(key);
    }
    // Unused here, but a path that is too long would be an error.
    out.set("sock_dir", "/");
    out
}

/// Fetches the pillar through `channel`, or compiles it here; `None` if the process is to end.
///
/// # Errors
/// No authentic pillar within the configured attempts, or a rejected sign-in.
pub fn of_minion(
    channel: &mut Channel,
    grains: &Map,
    functions: CallerFactory,
) -> Result<Option<Map>, MinionError> {
    let opts = channel.session().config().as_map();
    let wish = Wish::of(&opts);
    if is_local(&opts) {
        return local(&opts, grains, &wish, functions).map(Some);
    }
    match channel.pillar_by(&wish.load(&channel.session().config().id, grains))? {
        Reply::Value(Value::Map(pillar)) => Ok(Some(pillar)),
        Reply::Value(_) | Reply::Stopped => Ok(None),
        Reply::Refused(why) => Err(MinionError::new(
            1,
            format!("the master returned no pillar: {why}"),
        )),
        Reply::Silence => Err(MinionError::new(
            1,
            "the master did not answer the request for the pillar",
        )),
    }
}

/// A newly compiled pillar of this minion, from here or the master.
///
/// # Errors
/// `SaltClientError`: the master returned none; `CommandExecutionError`: local compilation failed.
pub fn compile_fresh(
    ctx: &Context,
    wish: &Wish,
    functions: CallerFactory,
) -> Result<Map, CallError> {
    if is_local(&ctx.opts) {
        return local(&ctx.opts, &ctx.grains, wish, functions)
            .map_err(|e| CallError::Command(e.message));
    }
    let failed = |text: String| CallError::raised("salt.exceptions.SaltClientError", text);
    ctx.master
        .pillar(&wish.load(&ctx.id, &ctx.grains))
        .map_err(|e| match e {
            LinkError::Silence => failed("Pillar timed out".to_owned()),
            other => {
                log::error!("the master returned no pillar: {other}");
                failed("Exception getting pillar.".to_owned())
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::template_functions;
    use halite_wire::map;

    #[test]
    fn a_minion_compiles_its_own_pillar() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "top.sls",
            "base:\n  'role:web':\n    - match: grain\n    - web\n",
        );
        write(
            "web.sls",
            "a: {{ opts.own }}\nb: {{ pillar.get('c', 1) }}\nid: {{ grains.role }}\nd: {{ salt['state.check_request']() }}\n",
        );
        let roots = vec![Value::from(dir.path().to_str().unwrap())];
        let opts = map! {
            "id" => "m1", "file_client" => "local", "own" => "mine",
            "cachedir" => dir.path().to_str().unwrap(), "log_level" => "garbage",
            "pillar_roots" => map! {"base" => roots},
        };
        assert!(is_local(&opts));
        let grains = map! {"role" => "web"};
        let pillar = local(&opts, &grains, &Wish::default(), template_functions).unwrap();
        assert_eq!(
            pillar,
            map! {"a" => "mine", "b" => 1, "id" => "web", "d" => Map::new()}
        );
        let wish = Wish {
            pillar_override: map! {"c" => 2},
            ..Wish::default()
        };
        let pillar = local(&opts, &grains, &wish, template_functions).unwrap();
        assert_eq!((pillar.int("b"), pillar.int("c")), (Some(1), Some(2)));
        assert!(local(&map! {"id" => "../x"}, &grains, &wish, template_functions).is_err());
    }

    #[test]
    fn where_a_pillar_comes_from() {
        let of = |client: &str, kind: &str, master: bool| {
            is_local(&map! {
                "file_client" => client, "master_type" => kind, "use_master_when_local" => master,
            })
        };
        assert!(of("local", "str", false));
        assert!(!of("local", "str", true));
        assert!(of("remote", "disable", false));
        assert!(!of("remote", "str", false));
    }
}
