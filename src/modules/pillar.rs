//! Compiles pillars: for a minion without a master, from its own `pillar_roots` and `ext_pillar`
//! (`salt/pillar/__init__.py get_pillar`); otherwise requests a new one from the master.

use crate::context::{CallError, Context};
use crate::render::{CallerFactory, SaltFunctions};
use halite_channel::channel::{Channel, Reply};
use halite_channel::link::LinkError;
use halite_channel::pillar_request::PillarQuery;
use halite_config::RenderOptions;
use halite_render::pillar::{PillarCompiler, PillarRequest};
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a local compilation.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(300);
/// Stack size of the compiling thread.
const STACK_SIZE: usize = 8 << 20;

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
    query: &PillarQuery,
    functions: CallerFactory,
) -> Result<Map, ExitError> {
    // Nested templates need more stack than the daemon's threads have.
    let compiled = std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("pillar".to_owned())
            .stack_size(STACK_SIZE)
            .spawn_scoped(scope, || compile(opts, grains, query, functions))
            .map(|thread| thread.join())
    });
    match compiled? {
        Ok(pillar) => pillar,
        Err(_) => Err(ExitError::new(
            1,
            "compiling the pillar failed unexpectedly; see the log",
        )),
    }
}

fn compile(
    opts: &Map,
    grains: &Map,
    query: &PillarQuery,
    functions: CallerFactory,
) -> Result<Map, ExitError> {
    let bad = |e: &dyn std::fmt::Display| ExitError::new(1, format!("the pillar: {e}"));
    let id = opts.str("id").unwrap_or_default();
    let id: MinionId = id.parse().map_err(|e| bad(&e))?;
    let options = RenderOptions::of_minion(opts).map_err(|e| bad(&e))?;
    let mut request = PillarRequest::new(id, Map::new());
    request.grains = Arc::new(grains.clone());
    request.saltenv = query.saltenv.clone();
    request.pillarenv = query.pillarenv.clone();
    request.pillar_override = query.pillar_override.clone();
    request.ext = query.ext.clone();
    let ctx = Context {
        id: request.id.as_str().to_owned(),
        grains: Arc::new(grains.clone()),
        opts: Arc::new(opts.clone()),
        cachedir: options.cachedir.clone(),
        ..Context::default()
    };
    let functions = SaltFunctions(functions(ctx));
    PillarCompiler::of_minion(options, opts.clone(), Rc::new(functions))
        .compile(&request, COMPILE_TIMEOUT)
        .map_err(|e| bad(&e))
}

/// Decrypts a caller's pillar data with the minion's own keys.
///
/// # Errors
/// Invalid data or renderer.
pub fn decrypt_given(opts: &Map, given: &mut Value, pillar_enc: &str) -> Result<(), String> {
    let options = RenderOptions::of_minion(opts).map_err(|e| e.to_string())?;
    halite_render::gpg::decrypt_given(&options, given, pillar_enc)
}

/// Fetches the pillar through `channel`, or compiles it here; `None` if the process is to end.
///
/// # Errors
/// No authentic pillar within the configured attempts, or a rejected sign-in.
pub fn fetch_or_compile(
    channel: &mut Channel,
    grains: &Map,
    clean_cache: bool,
    functions: CallerFactory,
) -> Result<Option<Map>, ExitError> {
    let opts = channel.session().config().as_map();
    let query = PillarQuery {
        clean_cache,
        ..PillarQuery::of(&opts)
    };
    if is_local(&opts) {
        return local(&opts, grains, &query, functions).map(Some);
    }
    match channel.pillar_by(&query.load(&channel.session().config().id, grains))? {
        Reply::Value(Value::Map(pillar)) => Ok(Some(pillar)),
        Reply::Value(_) | Reply::Stopped => Ok(None),
        Reply::Refused(why) => Err(ExitError::new(
            1,
            format!("the master returned no pillar: {why}"),
        )),
        Reply::Silence => Err(ExitError::new(
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
    query: &PillarQuery,
    functions: CallerFactory,
) -> Result<Map, CallError> {
    if is_local(&ctx.opts) {
        return local(&ctx.opts, &ctx.grains, query, functions)
            .map_err(|e| CallError::Command(e.message));
    }
    let failed = |text: String| CallError::raised("salt.exceptions.SaltClientError", text);
    ctx.master
        .pillar(&query.load(&ctx.id, &ctx.grains))
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
            "a: {{ opts.own }}\nb: {{ pillar.get('c', 1) }}\nid: {{ grains.role }}\nd: {{ salt['test.kwarg']() }}\n",
        );
        let roots = vec![Value::from(dir.path().to_str().unwrap())];
        let opts = map! {
            "id" => "m1", "file_client" => "local", "own" => "mine",
            "cachedir" => dir.path().to_str().unwrap(), "log_level" => "garbage",
            "pillar_roots" => map! {"base" => roots},
        };
        assert!(is_local(&opts));
        let grains = map! {"role" => "web"};
        let pillar = local(&opts, &grains, &PillarQuery::default(), template_functions).unwrap();
        assert_eq!(
            pillar,
            map! {"a" => "mine", "b" => 1, "id" => "web", "d" => Map::new()}
        );
        let query = PillarQuery {
            pillar_override: map! {"c" => 2},
            ..PillarQuery::default()
        };
        let pillar = local(&opts, &grains, &query, template_functions).unwrap();
        assert_eq!((pillar.int("b"), pillar.int("c")), (Some(1), Some(2)));
        assert!(local(&map! {"id" => "../x"}, &grains, &query, template_functions).is_err());
    }

    #[test]
    fn source_of_the_pillar() {
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
