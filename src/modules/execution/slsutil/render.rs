//! A render pipeline on the minion; `salt` in its templates are the minion's own functions.

use super::super::declare::Result;
use super::super::{Call, CallError, Context, python, python_modules};
use crate::execution::templates::template;
use crate::files::FileClient;
use crate::render::Template;
use halite_render::RenderError;
use halite_render::pipeline::{Pipeline, Source, Templates, python_args};
use halite_wire::map;
use halite_wire::{Map, Value};

pub fn renderer(call: &mut Call<'_>) -> Result {
    let (path, string) = (call.arg("path"), call.arg("string"));
    let keyword = |name: &str| call.bound.kwargs.get(name).map(python::str);
    let saltenv = keyword("saltenv").unwrap_or_else(|| "base".to_owned());
    let text = match (path.truthy(), string.truthy()) {
        (false, false) => return Err(CallError::Invocation("Must pass path or string.".into())),
        (true, true) => {
            return Err(CallError::Invocation(
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
    let templates = MinionCaller { ctx: call.ctx };
    pipeline
        .compile(&source, &templates)
        .map_err(|e| CallError::raised("salt.exceptions.SaltRenderError", e.to_string()))
}

/// The text of a local file or one on the file server; `None` if it does not exist.
fn read(call: &Call<'_>, path: &str, saltenv: &str) -> Result<Option<String>> {
    let found = FileClient::new(call.ctx)?.cache_file(path, saltenv)?;
    let Some(file) = found.filter(|file| file.is_file()) else {
        log::error!("Template does not exist: {path}");
        return Ok(None);
    };
    let shown = file.to_string_lossy().into_owned();
    let content = std::fs::read(&file).map_err(|e| python::os_error(&e, &shown))?;
    Ok(Some(String::from_utf8_lossy(&content).into_owned()))
}

struct MinionCaller<'a> {
    ctx: &'a Context,
}

impl Templates for MinionCaller<'_> {
    fn jinja(&self, source: &Source, text: &str) -> Result<String, RenderError> {
        let mut variables = map! {"sls" => source.sls};
        variables.0.extend(source.defaults.0.iter().cloned());
        let given = Template {
            format: "jinja",
            text,
            saltenv: source.saltenv,
            variables: &variables,
        };
        match template(self.ctx, &given) {
            Ok(rendered) => rendered.map_err(RenderError::new),
            Err(fault) => Err(RenderError::new(fault.message())),
        }
    }

    fn has_python(&self, renderer: &str, is_ours: bool) -> bool {
        python_modules::has_renderer(self.ctx, renderer, is_ours)
    }

    fn python(
        &self,
        source: &Source,
        renderer: &str,
        input: Value,
        args: &str,
    ) -> Result<Value, RenderError> {
        let args = python_args(source, renderer, input, args);
        python_modules::ask(self.ctx, "render", args, &mut halite_python::Nothing)
            .map_err(|e| RenderError::new(e.message()))
    }
}
