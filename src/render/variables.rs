//! What templates see: the variables of stock Salt and `salt[...]`.

use super::RenderError;
use super::files::Tree;
use super::functions::{Salt, Scope};
use super::jinja::Obj;
use super::pipeline::{Pipeline, Source, Templates, render_yaml};
use super::template::{Engine, sls_context};
use crate::config::MasterConfig;
use crate::wire::ids::MinionId;
use crate::wire::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Instant;

/// Rendered texts whose data are held; beyond this all are forgotten.
const PARSED_HELD: usize = 10_000;

/// Data parsed from the text that a file last rendered to.
#[derive(Default)]
pub(super) struct Parsed(RefCell<HashMap<String, (String, Value)>>);

impl Parsed {
    fn yaml(&self, path: &str, text: &str) -> Result<Value, RenderError> {
        if let Some((seen, data)) = self.0.borrow().get(path)
            && seen == text
        {
            return Ok(data.clone());
        }
        let data = render_yaml(text)?;
        let mut held = self.0.borrow_mut();
        if held.len() >= PARSED_HELD {
            held.clear();
        }
        held.insert(path.to_owned(), (text.to_owned(), data.clone()));
        Ok(data)
    }
}

/// What a worker keeps between requests, as far as templates need it.
pub(super) struct Shared {
    pub config: Rc<MasterConfig>,
    /// The options of the master.
    pub opts: Rc<Map>,
    pub engine: Engine,
    pub parsed: Parsed,
}

impl Shared {
    pub fn new(config: &MasterConfig) -> Shared {
        Shared {
            engine: Engine::new(config),
            parsed: Parsed::default(),
            opts: Rc::new(config.as_map()),
            config: Rc::new(config.clone()),
        }
    }
}

/// The files of an environment.
pub(super) type Trees = dyn Fn(&str) -> Rc<dyn Tree>;

/// For whom and with what a source is rendered.
pub(super) struct Given {
    /// The minion.
    pub id: MinionId,
    /// Its grains.
    pub grains: Rc<Map>,
    /// The pillar as far as templates may see it.
    pub pillar: Rc<Map>,
    /// The options as templates see them, with the grains.
    pub opts: Map,
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
    grains: Obj,
    pillar: Obj,
    opts: Obj,
}

impl Variables {
    pub fn new(shared: &Rc<Shared>, given: Given) -> Rc<Variables> {
        let grains = Obj::from(&*given.grains);
        let pillar = Obj::from(&*given.pillar);
        let function_opts = Rc::new(given.opts.clone());
        let opts = Obj::from(given.opts);
        if let Obj::Dict(dict) = &opts {
            dict.borrow_mut().set_str("grains", grains.clone());
        }
        Rc::new_cyclic(|own: &Weak<Variables>| {
            let (render, find) = (own.clone(), own.clone());
            let scope = Scope {
                id: given.id,
                grains: given.grains,
                pillar: given.pillar,
                opts: function_opts,
                config: shared.config.clone(),
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
            Variables {
                shared: shared.clone(),
                trees: given.trees,
                pillar_rend: given.pillar_rend,
                running: RefCell::default(),
                salt: Obj::native(Salt(Rc::new(scope))),
                pillar,
                grains,
                opts,
            }
        })
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
            ("grains".to_owned(), self.grains.clone()),
            ("opts".to_owned(), self.opts.clone()),
            ("pillar".to_owned(), self.pillar.clone()),
            ("saltenv".to_owned(), Obj::str_from(source.saltenv)),
            ("sls".to_owned(), Obj::str_from(source.sls)),
            ("proxy".to_owned(), Obj::from(Map::new())),
        ];
        if self.pillar_rend {
            context.push(("_pillar_rend".to_owned(), Obj::Bool(true)));
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

    fn yaml(&self, source: &Source, text: &str) -> Result<Value, RenderError> {
        self.shared.parsed.yaml(source.path, text)
    }
}
