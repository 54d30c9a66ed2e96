//! SLS files of this minion, rendered with its own functions.

use halite_config::RenderOptions;
use halite_modules::execution::{CallError, Context, template_functions};
use halite_modules::files::FileClient;
use halite_modules::render::MinionTemplates;
use halite_render::RenderError;
use halite_render::files::{sls_files, sls_name, text_of};
use halite_render::pipeline::{Pipeline, Source, Templates};
use halite_render::state::highstate::{RenderedSls, SlsSource};
use halite_wire::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::rc::Rc;

/// The SLS files of the file server.
pub struct MinionSls {
    client: Rc<FileClient>,
    pipeline: Pipeline,
    templates: MinionTemplates,
    /// Files by environment, as listed by the server.
    listed: RefCell<HashMap<String, Option<Listing>>>,
    envs: RefCell<Option<Vec<String>>>,
}

#[derive(Clone)]
struct Listing {
    names: Vec<String>,
    /// `None`: the server was not asked for a list of files.
    files: BTreeSet<String>,
}

impl MinionSls {
    /// A renderer with a run's grains, pillar and options.
    ///
    /// # Errors
    /// Invalid options for templates.
    pub fn new(ctx: &Context, client: Rc<FileClient>) -> Result<MinionSls, CallError> {
        let invalid = |e: halite_config::ConfigError| CallError::Command(e.to_string());
        let list = |name: &str| ctx.opts.get(name).map(Value::str_list).unwrap_or_default();
        let options = RenderOptions::of_minion(&ctx.opts).map_err(invalid)?;
        Ok(MinionSls {
            client,
            pipeline: Pipeline {
                default: ctx.opts.str("renderer").unwrap_or("jinja|yaml").to_owned(),
                blacklist: list("renderer_blacklist"),
                whitelist: list("renderer_whitelist"),
            },
            templates: MinionTemplates::new(ctx, template_functions(ctx.clone()), &options),
            listed: RefCell::default(),
            envs: RefCell::default(),
        })
    }

    /// Renders a text.
    ///
    /// # Errors
    /// Why it cannot be rendered, for the user.
    pub fn text(&self, text: &str, path: &str, saltenv: &str, sls: &str) -> Result<Value, String> {
        let source = Source {
            text,
            path,
            saltenv,
            sls,
            defaults: &Map::new(),
        };
        self.pipeline
            .compile(&source, &self.templates as &dyn Templates)
            .map_err(|e: RenderError| e.to_string())
    }

    /// Renders a file of the file server by its path; `None` if there is none.
    ///
    /// # Errors
    /// As [`MinionSls::text`].
    pub fn file(&self, name: &str, saltenv: &str, sls: &str) -> Result<Option<Value>, String> {
        let url = halite_modules::files::url::create(name, None);
        let place = self
            .client
            .cache_file(&url, saltenv)
            .map_err(|e| e.to_string())?;
        let Some(place) = place else { return Ok(None) };
        let text = File::open(&place)
            .map_err(|e| e.to_string())
            .and_then(text_of)
            .map_err(|e| format!("{}: {e}", place.display()))?;
        self.text(&text, &place.to_string_lossy(), saltenv, sls)
            .map(Some)
    }

    /// The environments of the file server.
    ///
    /// # Errors
    /// The file server does not answer.
    pub fn environments(&self) -> Result<Vec<String>, CallError> {
        if let Some(envs) = &*self.envs.borrow() {
            return Ok(envs.clone());
        }
        let envs = self.client.envs()?;
        *self.envs.borrow_mut() = Some(envs.clone());
        Ok(envs)
    }

    fn list(&self, saltenv: &str) -> Option<Listing> {
        if let Some(found) = self.listed.borrow().get(saltenv) {
            return found.clone();
        }
        // As in stock Salt, `base` always exists.
        let known = saltenv == "base"
            || self
                .environments()
                .is_ok_and(|all| all.iter().any(|env| env == saltenv || env == "__env__"));
        let found = known.then(|| {
            let files = self.client.list(saltenv, "").unwrap_or_else(|e| {
                log::error!("the files of the environment {saltenv} cannot be listed: {e}");
                Vec::new()
            });
            let mut names: Vec<String> = files.iter().filter_map(|path| sls_name(path)).collect();
            names.sort_unstable();
            names.dedup();
            Listing {
                names,
                files: files.into_iter().collect(),
            }
        });
        self.listed
            .borrow_mut()
            .insert(saltenv.to_owned(), found.clone());
        found
    }
}

impl SlsSource for &MinionSls {
    fn available(&self, saltenv: &str) -> Option<Vec<String>> {
        self.list(saltenv).map(|listing| listing.names)
    }

    fn render(&mut self, saltenv: &str, sls: &str) -> Result<Option<RenderedSls>, String> {
        let listing = self.list(saltenv);
        for (name, init) in sls_files(sls) {
            // A file that is not listed is not asked for.
            if listing
                .as_ref()
                .is_some_and(|l| !l.files.is_empty() && !l.files.contains(&name))
            {
                continue;
            }
            if let Some(data) = self.file(&name, saltenv, sls)? {
                return Ok(Some(RenderedSls { data, init }));
            }
        }
        Ok(None)
    }
}
