//! What templates see: the variables of stock Salt and `salt[...]`.

use super::RenderError;
use super::files::FileTree;
use super::functions::{
    BuiltinFunctions, ChainedLoader, FunctionContext, FunctionLoader, LazyMap, SaltVariable,
};
use super::gpg::Gpg;
use super::pipeline::{Pipeline, Source, Templates, render_yaml};
use super::template::{TemplateEngine, sls_context};
use halite_config::MasterConfig;
use halite_jinja::Obj;
use halite_store::keys::KeyStore;
use halite_store::minions::MinionCache;
use halite_store::open;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Instant;

/// Octets of rendered texts whose data are held; beyond this all are forgotten. Data take some
/// ten times as much.
const PARSED_HELD: usize = 4 << 20;

/// Data parsed from texts before. A minion mostly gets the pillar that it got the last time,
/// and to read its YAML is most of the work.
#[derive(Default)]
pub(super) struct Parsed(RefCell<Texts>);

#[derive(Default)]
struct Texts {
    data: HashMap<Box<str>, Value>,
    octets: usize,
}

impl Parsed {
    fn yaml(&self, text: &str) -> Result<Value, RenderError> {
        if let Some(data) = self.0.borrow().data.get(text) {
            return Ok(data.clone());
        }
        let data = render_yaml(text)?;
        let mut held = self.0.borrow_mut();
        held.octets += text.len();
        if held.octets > PARSED_HELD {
            *held = Texts {
                octets: text.len(),
                ..Texts::default()
            };
        }
        held.data.insert(text.into(), data.clone());
        Ok(data)
    }
}

/// What a worker keeps between requests, as far as templates need it.
pub(super) struct Shared {
    pub config: Rc<MasterConfig>,
    /// The options of the master.
    pub opts: Rc<Map>,
    pub engine: TemplateEngine,
    pub parsed: Parsed,
    pub gpg: Gpg,
    pub keys: Rc<KeyStore>,
    pub minions: Rc<MinionCache>,
    /// Functions of the minion that renders for itself.
    pub functions: Option<Rc<dyn FunctionLoader>>,
}

impl Shared {
    pub fn new(config: &MasterConfig) -> Shared {
        Shared {
            engine: TemplateEngine::new(config),
            parsed: Parsed::default(),
            gpg: Gpg::new(config),
            keys: Rc::new(open::key_store(config)),
            minions: Rc::new(open::minion_cache(config)),
            functions: None,
            opts: Rc::new(config.as_map()),
            config: Rc::new(config.clone()),
        }
    }
}

/// The files of an environment.
pub(super) type Trees = dyn Fn(&str) -> Rc<dyn FileTree>;

/// For whom and with what a source is rendered.
pub(super) struct Given {
    /// The minion.
    pub id: MinionId,
    /// Its grains.
    pub grains: Rc<Map>,
    /// The pillar as far as templates may see it.
    pub pillar: Rc<Map>,
    /// The options as templates see them, with the grains.
    pub opts: Rc<LazyMap>,
    /// Where templates find others.
    pub trees: Rc<Trees>,
    /// Whether the sources are those of a pillar.
    pub pillar_rend: bool,
    /// When whatever is started must be done.
    pub deadline: Instant,
}

/// The variables of one compilation.
pub(super) struct Variables {
    shared: Rc<Shared>,
    trees: Rc<Trees>,
    pillar_rend: bool,
    /// The environment of the template that runs.
    running: RefCell<String>,
    salt: Obj,
    grains: OnceCell<Obj>,
    given_grains: Rc<Map>,
    pillar: Obj,
    opts: OnceCell<Obj>,
    given_opts: Rc<LazyMap>,
    deadline: Instant,
}

impl Variables {
    pub fn new(shared: &Rc<Shared>, given: Given) -> Rc<Variables> {
        let pillar = Obj::from(&*given.pillar);
        let (grains, opts) = (given.grains.clone(), given.opts.clone());
        Rc::new_cyclic(|own: &Weak<Variables>| {
            let (render, find) = (own.clone(), own.clone());
            let scope = FunctionContext {
                id: given.id,
                grains: given.grains,
                pillar: given.pillar,
                opts: given.opts,
                config: shared.config.clone(),
                keys: shared.keys.clone(),
                minions: shared.minions.clone(),
                deadline: given.deadline,
                render: Rc::new(move |text, path, pipe, more| {
                    let own = render.upgrade().ok_or("the compilation is over already")?;
                    own.pipe(text, path, pipe, more).map_err(|e| e.to_string())
                }),
                find: Rc::new(move |name| {
                    let own = find.upgrade()?;
                    let env = own.running.borrow().clone();
                    (own.trees)(&env).find(name)
                }),
            };
            let table = BuiltinFunctions(Rc::new(scope));
            Variables {
                shared: shared.clone(),
                trees: given.trees,
                pillar_rend: given.pillar_rend,
                running: RefCell::default(),
                salt: Obj::native(SaltVariable(match &shared.functions {
                    None => Rc::new(table),
                    Some(functions) => Rc::new(ChainedLoader(Rc::new(table), functions.clone())),
                })),
                pillar,
                grains: OnceCell::new(),
                given_grains: grains,
                opts: OnceCell::new(),
                given_opts: opts,
                deadline: given.deadline,
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
        ];
        if self.pillar_rend {
            context.push(("_pillar_rend".to_owned(), Obj::Bool(true)));
        }
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
        let files = (self.trees)(source.saltenv);
        let result = self.shared.engine.render(text, source.sls, files, context);
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
