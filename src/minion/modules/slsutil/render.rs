//! A pipe of renderers on the minion: `salt` in its templates are the minion's own functions.

use super::super::declare::Result;
use super::super::{Call, Context, Fault, MODULES, find, python, within};
use crate::minion::files::FileClient;
use crate::render::RenderError;
use crate::render::jinja::{
    Args, Cx, Environment, Error, ErrorKind, Loaded, Loader, Obj, Object, Options,
};
use crate::render::pipeline::{Pipeline, Source, Templates};
use crate::render::template::sls_context;
use crate::wire::{Map, Value};
use std::rc::Rc;

pub fn renderer(call: &mut Call<'_>) -> Result {
    let (path, string) = (call.arg("path"), call.arg("string"));
    let keyword = |name: &str| call.bound.kwargs.get(name).map(python::str);
    let saltenv = keyword("saltenv").unwrap_or_else(|| "base".to_owned());
    let text = match (path.truthy(), string.truthy()) {
        (false, false) => return Err(Fault::Invocation("Must pass path or string.".into())),
        (true, true) => {
            return Err(Fault::Invocation(
                "Must not pass both path and string.".into(),
            ));
        }
        (false, true) => python::str(string),
        (true, false) => match read(call, &python::str(path), &saltenv)? {
            Some(text) => text,
            None => return Ok(Map::new().into()),
        },
    };
    let shown = if path.truthy() {
        python::str(path)
    } else {
        ":string:".to_owned()
    };
    let list = |name: &str| {
        call.ctx
            .opts
            .get(name)
            .map(Value::str_list)
            .unwrap_or_default()
    };
    let pipeline = Pipeline {
        default: python::str(call.arg("default_renderer")),
        blacklist: list("renderer_blacklist"),
        whitelist: list("renderer_whitelist"),
    };
    let own = call
        .bound
        .kwargs
        .iter()
        .filter(|(k, _)| !python::str(k).starts_with("__"));
    let source = Source {
        text: &text,
        path: &shown,
        saltenv: &saltenv,
        sls: "",
        defaults: &own.cloned().collect(),
    };
    let templates = Minion {
        ctx: Rc::new(call.ctx.clone()),
        depth: call.depth,
    };
    pipeline
        .compile(&source, &templates)
        .map_err(|e| Fault::raised("salt.exceptions.SaltRenderError", e.to_string()))
}

/// The text of a file of the file server or of this host; `None` if there is none.
fn read(call: &Call<'_>, path: &str, saltenv: &str) -> std::result::Result<Option<String>, Fault> {
    let found = FileClient::new(call.ctx)?.cache_file(path, saltenv)?;
    let Some(file) = found.filter(|file| file.is_file()) else {
        log::error!("Template does not exist: {path}");
        return Ok(None);
    };
    let shown = file.to_string_lossy().into_owned();
    let content = std::fs::read(&file).map_err(|e| python::os_error(&e, &shown))?;
    Ok(Some(String::from_utf8_lossy(&content).into_owned()))
}

struct Minion {
    ctx: Rc<Context>,
    depth: u32,
}

impl Templates for Minion {
    fn jinja(&self, source: &Source, text: &str) -> std::result::Result<String, RenderError> {
        let mut variables = sls_context(source.path, source.sls);
        let mut put = |name: &str, value: Obj| variables.push((name.to_owned(), value));
        put("grains", Obj::from(&*self.ctx.grains));
        put("pillar", Obj::from(&*self.ctx.pillar));
        put("opts", Obj::from(&self.ctx.opts));
        put("saltenv", Obj::from(&Value::from(source.saltenv)));
        put("sls", Obj::from(&Value::from(source.sls)));
        let functions = Functions {
            ctx: self.ctx.clone(),
            depth: self.depth,
        };
        put("salt", Obj::native(functions));
        for (name, value) in source.defaults.iter() {
            put(&python::str(name), Obj::from(value));
        }
        let loader = Files {
            ctx: self.ctx.clone(),
            saltenv: source.saltenv.to_owned(),
        };
        let environment = Environment::new(Options::default()).with_loader(Rc::new(loader));
        let mut out = environment
            .render(text, "<template>", variables)
            .map_err(|e| RenderError::new(e.salt_text()))?;
        if text.ends_with('\n') {
            out.push('\n');
        }
        Ok(out)
    }
}

/// Templates of the file server.
struct Files {
    ctx: Rc<Context>,
    saltenv: String,
}

impl Loader for Files {
    fn load(&self, name: &str, _: Option<&str>) -> std::result::Result<Option<Loaded>, String> {
        let name = name.strip_prefix("salt://").unwrap_or(name);
        let url = format!("salt://{name}");
        let client = FileClient::new(&self.ctx).map_err(|e| e.to_string())?;
        let content = client
            .contents(&url, &self.saltenv)
            .map_err(|e| e.to_string())?;
        Ok(content.map(|content| Loaded {
            source: String::from_utf8_lossy(&content).into_owned(),
            name: name.to_owned(),
            globals: Vec::new(),
        }))
    }
}

/// The variable `salt`, or one of its modules.
struct Functions {
    ctx: Rc<Context>,
    depth: u32,
}

impl Functions {
    fn get(&self, name: &str) -> Option<Obj> {
        find(name)?;
        Some(Obj::native(Named {
            name: name.to_owned(),
            ctx: self.ctx.clone(),
            depth: self.depth,
        }))
    }
}

impl Object for Functions {
    fn type_name(&self) -> &str {
        "AliasedLoader"
    }

    fn get_item(&self, _: &mut Cx, key: &Obj) -> std::result::Result<Option<Obj>, Error> {
        Ok(key.as_str().and_then(|name| self.get(name)))
    }

    fn get_attr(&self, _: &mut Cx, name: &str) -> std::result::Result<Option<Obj>, Error> {
        if !MODULES.iter().any(|m| m.name == name) {
            return Ok(None);
        }
        Ok(Some(Obj::native(OfModule {
            name: name.to_owned(),
            functions: Functions {
                ctx: self.ctx.clone(),
                depth: self.depth,
            },
        })))
    }

    fn contains(&self, _: &mut Cx, item: &Obj) -> std::result::Result<Option<bool>, Error> {
        Ok(Some(item.as_str().is_some_and(|name| find(name).is_some())))
    }
}

struct OfModule {
    name: String,
    functions: Functions,
}

impl Object for OfModule {
    fn type_name(&self) -> &str {
        "LoadedMod"
    }

    fn get_attr(&self, _: &mut Cx, name: &str) -> std::result::Result<Option<Obj>, Error> {
        Ok(self.functions.get(&format!("{}.{name}", self.name)))
    }
}

struct Named {
    name: String,
    ctx: Rc<Context>,
    depth: u32,
}

impl Object for Named {
    fn type_name(&self) -> &str {
        "LoadedFunc"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _: &mut Cx, args: &Args) -> std::result::Result<Obj, Error> {
        let positional: std::result::Result<Vec<Value>, Error> =
            args.positional.iter().map(Obj::to_value).collect();
        let mut keywords = Map::new();
        for (name, value) in &args.keyword {
            keywords.set(name.as_ref(), value.to_value()?);
        }
        within(&self.ctx, self.depth, &self.name, positional?, keywords)
            .map(Obj::from)
            .map_err(|fault| match fault {
                Fault::Type(text) => Error::type_error(text),
                other => Error::new(ErrorKind::Function, other.message().to_owned()),
            })
    }
}
