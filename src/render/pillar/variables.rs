//! What templates of a pillar see: the variables of stock Salt and `salt[...]`.

use super::super::RenderError;
use super::super::files::FileCache;
use super::super::functions::{Late, Salt, Scope};
use super::super::gpg::Gpg;
use super::super::jinja::Obj;
use super::super::pipeline::{Pipeline, Source, Templates};
use super::super::template::{Engine, sls_context};
use super::{Parsed, PillarRequest, Settings};
use crate::config::MasterConfig;
use crate::store::keys::KeyStore;
use crate::store::minions::MinionCache;
use crate::store::open;
use crate::wire::{Map, Value};
use std::cell::{LazyCell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

/// What a worker keeps between requests, as far as templates need it.
pub(super) struct Shared {
    pub config: Rc<MasterConfig>,
    /// The options of the master.
    pub opts: Rc<Map>,
    pub files: Rc<FileCache>,
    pub engine: Engine,
    pub parsed: Parsed,
    pub gpg: Gpg,
    pub keys: Rc<KeyStore>,
    pub minions: Rc<MinionCache>,
}

impl Shared {
    pub fn new(config: &MasterConfig) -> Shared {
        let files = Rc::new(FileCache::default());
        Shared {
            engine: Engine::new(config, files.clone()),
            files,
            parsed: Parsed::default(),
            gpg: Gpg::new(config),
            keys: Rc::new(open::key_store(config)),
            minions: Rc::new(open::minion_cache(config)),
            opts: Rc::new(config.as_map()),
            config: Rc::new(config.clone()),
        }
    }
}

/// The variables of one compilation.
pub(super) struct Variables {
    shared: Rc<Shared>,
    roots: Vec<(String, Vec<String>)>,
    /// The environment of the template that runs.
    running: RefCell<String>,
    salt: Obj,
    grains: OnceCell<Obj>,
    given_grains: Rc<Map>,
    pillar: Obj,
    opts: OnceCell<Obj>,
    given_opts: Rc<Late>,
    deadline: Instant,
}

impl Variables {
    pub fn new(
        shared: &Rc<Shared>,
        request: &PillarRequest,
        settings: &Settings,
        pillar: Rc<Map>,
        deadline: Instant,
    ) -> Rc<Variables> {
        let opts: Rc<Late> = Rc::new({
            let (opts, request, settings) =
                (shared.opts.clone(), request.clone(), settings.clone());
            LazyCell::new(Box::new(move || options(&opts, &request, &settings)))
        });
        Rc::new_cyclic(|own: &Weak<Variables>| {
            let (render, find) = (own.clone(), own.clone());
            let scope = Scope {
                id: request.id.clone(),
                grains: request.grains.clone(),
                pillar: pillar.clone(),
                opts: opts.clone(),
                config: shared.config.clone(),
                keys: shared.keys.clone(),
                minions: shared.minions.clone(),
                deadline,
                render: Rc::new(move |text, path, pipe, more| {
                    let own = render.upgrade().ok_or("the pillar is compiled already")?;
                    own.pipe(text, path, pipe, more).map_err(|e| e.to_string())
                }),
                find: Rc::new(move |name| {
                    let own = find.upgrade()?;
                    let env = own.running.borrow().clone();
                    own.shared.files.find(own.roots_of(&env), name)
                }),
            };
            Variables {
                shared: shared.clone(),
                roots: settings.roots.clone(),
                running: RefCell::default(),
                salt: Obj::native(Salt(Rc::new(scope))),
                pillar: Obj::from(&*pillar),
                grains: OnceCell::new(),
                given_grains: request.grains.clone(),
                opts: OnceCell::new(),
                given_opts: opts,
                deadline,
            }
        })
    }

    fn grains(&self) -> Obj {
        let make = || Obj::from(&*self.given_grains);
        self.grains.get_or_init(make).clone()
    }

    fn opts(&self) -> Obj {
        let make = || {
            let opts: &Map = &self.given_opts;
            let opts = Obj::from(opts);
            if let Obj::Dict(dict) = &opts {
                dict.borrow_mut().set_str("grains", self.grains());
            }
            opts
        };
        self.opts.get_or_init(make).clone()
    }

    fn roots_of(&self, env: &str) -> &[String] {
        let found = self.roots.iter().find(|(name, _)| name == env);
        found.map(|(_, dirs)| dirs.as_slice()).unwrap_or_default()
    }

    fn pipe(&self, text: &str, path: &str, pipe: &str, more: &Map) -> Result<Value, RenderError> {
        let config = &self.shared.config;
        let pipeline = Pipeline {
            default: pipe.to_owned(),
            blacklist: config.renderer_blacklist.clone(),
            whitelist: config.renderer_whitelist.clone(),
        };
        let saltenv = self.running.borrow().clone();
        let source = Source {
            text,
            path,
            saltenv: &saltenv,
            sls: "",
            defaults: more,
        };
        pipeline.compile(&source, self)
    }
}

impl Templates for Variables {
    fn jinja(&self, source: &Source, text: &str) -> Result<String, RenderError> {
        if self.shared.engine.is_plain(text) {
            return Ok(text.to_owned());
        }
        let mut context = vec![
            ("salt".to_owned(), self.salt.clone()),
            ("pillar".to_owned(), self.pillar.clone()),
            ("saltenv".to_owned(), Obj::str_from(source.saltenv)),
            ("sls".to_owned(), Obj::str_from(source.sls)),
            ("proxy".to_owned(), Obj::from(Map::new())),
            ("_pillar_rend".to_owned(), Obj::Bool(true)),
        ];
        // These two are large, and most templates name at most one of them.
        if may_name(text, "grains") {
            context.push(("grains".to_owned(), self.grains()));
        }
        if may_name(text, "opts") {
            context.push(("opts".to_owned(), self.opts()));
        }
        for (name, value) in source.defaults.iter() {
            let Some(name) = name.as_str() else { continue };
            context.retain(|(known, _)| known != name);
            context.push((name.to_owned(), Obj::from(value)));
        }
        for (name, value) in sls_context(source.path, source.sls) {
            if !context.iter().any(|(known, _)| *known == name) {
                context.push((name, value));
            }
        }
        let before = self.running.replace(source.saltenv.to_owned());
        let roots = self.roots_of(source.saltenv);
        let result = self.shared.engine.render(text, source.sls, roots, context);
        self.running.replace(before);
        result
    }

    fn yaml(&self, text: &str) -> Result<Value, RenderError> {
        self.shared.parsed.yaml(text)
    }

    fn gpg(&self, source: &Source, data: &mut Value) -> Result<(), RenderError> {
        let newlines = source.defaults.get("translate_newlines");
        let newlines = newlines.is_some_and(Value::truthy);
        let done = self.shared.gpg.decrypt(data, newlines, self.deadline);
        done.map_err(RenderError::new)
    }
}

/// Whether a template can see a variable: it names it, another one that it loads may, or it shows
/// all that there are.
fn may_name(text: &str, variable: &str) -> bool {
    const OTHERS: [&str; 4] = ["import", "include", "extends", "context"];
    text.contains(variable) || OTHERS.iter().any(|word| text.contains(word))
}

/// The options as `Pillar.__gen_opts` changes them; the grains follow.
fn options(opts: &Map, request: &PillarRequest, settings: &Settings) -> Map {
    let mut opts = opts.clone();
    let roots: Map = settings
        .roots
        .iter()
        .map(|(env, dirs)| (env.as_str(), dirs.clone()))
        .collect();
    opts.set("pillar_roots", roots);
    opts.set("file_client", "local");
    opts.set("grains", (*request.grains).clone());
    opts.set("saltenv", settings.saltenv.clone());
    opts.set("pillarenv", settings.pillarenv.clone());
    opts.set("id", request.id.as_str());
    opts.set("minion_id", request.id.as_str());
    opts
}
