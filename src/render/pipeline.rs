//! The render pipeline (`salt/template.py compile_template`).

use super::RenderError;
use halite_wire::{Map, Value, yaml};

/// The renderers that exist, with a description.
pub const RENDERERS: &[(&str, &str)] = &[
    (
        "gpg",
        "Decrypts a text, or the texts in data, that GnuPG has encrypted.",
    ),
    ("jinja", "Renders a Jinja template to text."),
    ("json", "Reads JSON."),
    (
        "text",
        "Returns the text unchanged, or as the value of a key.",
    ),
    ("yaml", "Reads YAML as Salt does."),
];

/// Which renderers apply.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Option `renderer`: for files whose first line names none.
    pub default: String,
    /// Option `renderer_blacklist`.
    pub blacklist: Vec<String>,
    /// Option `renderer_whitelist`.
    pub whitelist: Vec<String>,
}

/// The renderers of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Renderers of [`RENDERERS`].
    pub here: Vec<&'static str>,
    /// Unknown names: renderers of stock Salt that do not exist here, and custom ones.
    pub absent: Vec<String>,
}

/// A source to render.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a str,
    /// Its path.
    pub path: &'a str,
    /// Its environment.
    pub saltenv: &'a str,
    /// Its SLS name; empty for a top file.
    pub sls: &'a str,
    /// Additional variables for templates (`defaults` of an include).
    pub defaults: &'a Map,
}

/// The renderers that need a context.
pub trait Templates {
    /// Renders Jinja. `text` is `source.text` after the renderers before.
    ///
    /// # Errors
    /// The template is wrong, or something in it failed.
    fn jinja(&self, source: &Source, text: &str) -> Result<String, RenderError>;

    /// Parses YAML; implementations may cache the result.
    ///
    /// # Errors
    /// The text is not YAML.
    fn yaml(&self, text: &str) -> Result<Value, RenderError> {
        render_yaml(text)
    }

    /// Decrypts texts in place.
    ///
    /// # Errors
    /// Something that must be decrypted cannot be.
    fn gpg(&self, source: &Source, data: &mut Value) -> Result<(), RenderError> {
        let _ = (source, data);
        Err(RenderError::new("the renderer \"gpg\" has no keys here"))
    }

    /// Whether there is a renderer in Python of this name; `is_ours` if one of [`RENDERERS`] has it, too.
    fn has_python(&self, renderer: &str, is_ours: bool) -> bool {
        let _ = (renderer, is_ours);
        false
    }

    /// Renders a text or data with a renderer in Python. The result is either.
    ///
    /// # Errors
    /// What the renderer raises.
    fn python(
        &self,
        source: &Source,
        renderer: &str,
        input: Value,
        args: &str,
    ) -> Result<Value, RenderError> {
        let _ = (source, input, args);
        Err(RenderError::new(format!(
            "the renderer \"{renderer}\" is not available"
        )))
    }
}

/// The arguments of the Python host's request `render`.
pub fn python_args(source: &Source, renderer: &str, input: Value, args: &str) -> Vec<Value> {
    vec![
        renderer.into(),
        input,
        args.into(),
        source.saltenv.into(),
        source.sls.into(),
        source.path.into(),
        source.defaults.clone().into(),
    ]
}

/// The data passed from one renderer to the next.
enum Stage {
    Text(String),
    Data(Value),
}

impl Pipeline {
    /// Renders a source. An empty source gives an empty map, and so does one whose renderers are all unknown
    /// or forbidden. Without a renderer that returns data, the result is text.
    ///
    /// # Errors
    /// A renderer failed, or only stock Salt has it.
    pub fn compile(
        &self,
        source: &Source,
        templates: &dyn Templates,
    ) -> Result<Value, RenderError> {
        let nothing = || Ok(Value::Map(Map::new()));
        if source.text.is_empty() {
            log::debug!("Template is an empty file: {}", source.path);
            return nothing();
        }
        if source.text.trim().is_empty() {
            log::error!("Template is nothing but whitespace: {}", source.path);
            return nothing();
        }
        let renderers = self.renderers(source, templates)?;
        if renderers.is_empty() {
            return nothing();
        }
        let mut stage = None;
        for (renderer, args) in renderers {
            stage = Some(renderer.run(source, stage, args, templates)?);
        }
        Ok(match stage {
            Some(Stage::Data(value)) => value,
            Some(Stage::Text(text)) => Value::Str(text),
            None => Value::Map(Map::new()),
        })
    }

    /// The renderers that a text names, known and unknown.
    pub fn stages(&self, text: &str) -> Stages {
        let mut stages = Stages::default();
        for part in self.pipe(text) {
            let name = part.split_once(' ').map_or(part, |(name, _)| name);
            match RENDERERS.iter().find(|(known, _)| *known == name) {
                Some((known, _)) => stages.here.push(known),
                None => stages.absent.push(name.to_owned()),
            }
        }
        stages
    }

    /// The parts of the pipe of a text (`template_shebang`).
    fn pipe<'a>(&'a self, text: &'a str) -> Vec<&'a str> {
        let first = text.lines().next().unwrap_or_default();
        let pipe = match first.strip_prefix("#!") {
            Some(pipe) if !pipe.starts_with('/') => pipe.trim_end(),
            _ => self.default.as_str(),
        };
        match pipe {
            "yaml_jinja" => vec!["jinja", "yaml"],
            "json_jinja" => vec!["jinja", "json"],
            _ => pipe.split('|').map(str::trim).collect(),
        }
    }

    /// The renderers of the first line, else of the option (`template_shebang`, `check_render_pipe_str`).
    fn renderers<'a>(
        &'a self,
        source: &Source<'a>,
        templates: &dyn Templates,
    ) -> Result<Vec<(Renderer<'a>, &'a str)>, RenderError> {
        let mut out = Vec::new();
        for part in self.pipe(source.text) {
            let (name, args) = part.split_once(' ').unwrap_or((part, ""));
            let listed = |list: &[String]| list.iter().any(|n| n == name);
            if !self.whitelist.is_empty() && !listed(&self.whitelist) || listed(&self.blacklist) {
                log::warn!(
                    "The renderer \"{name}\" is disallowed by configuration and will be skipped."
                );
                continue;
            }
            let is_ours = RENDERERS.iter().any(|(known, _)| *known == name);
            match name {
                name if templates.has_python(name, is_ours) => {
                    out.push((Renderer::Python(name), args.trim()));
                }
                "jinja" => out.push((Renderer::Jinja, args.trim())),
                "yaml" => out.push((Renderer::Yaml, args.trim())),
                "json" => out.push((Renderer::Json, args.trim())),
                "text" => out.push((Renderer::Text, args.trim())),
                "gpg" => out.push((Renderer::Gpg, args.trim())),
                // Stock logs an unknown one and takes the file for empty: a run without its states is no success.
                _ => {
                    let here: Vec<&str> = RENDERERS.iter().map(|(known, _)| *known).collect();
                    return Err(RenderError::new(format!(
                        "The renderer \"{name}\" is not available; there are {}, py, those of Python files in salt://_renderers, and \
                         with legacy_salt those of an installed Salt",
                        here.join(", ")
                    )));
                }
            }
        }
        Ok(out)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renderer<'a> {
    Jinja,
    Yaml,
    Json,
    Text,
    /// Decrypts a text, or the texts in data.
    Gpg,
    /// Takes and gives texts or data.
    Python(&'a str),
}

impl Renderer<'_> {
    fn run(
        self,
        source: &Source,
        input: Option<Stage>,
        args: &str,
        templates: &dyn Templates,
    ) -> Result<Stage, RenderError> {
        if let Renderer::Python(name) = self {
            let input = match input {
                None => source.text.into(),
                Some(Stage::Text(text)) => text.into(),
                Some(Stage::Data(data)) => data,
            };
            return Ok(match templates.python(source, name, input, args)? {
                Value::Str(text) => Stage::Text(text),
                data => Stage::Data(data),
            });
        }
        let text = match &input {
            None => source.text,
            Some(Stage::Text(text)) => text,
            Some(Stage::Data(_)) if self == Renderer::Gpg => "",
            Some(Stage::Data(_)) => {
                return Err(RenderError::new(
                    "a renderer for text comes after one for data",
                ));
            }
        };
        match self {
            Renderer::Jinja if !args.is_empty() && args != "-s" => {
                Err(RenderError::new(format!("Unknown renderer option: {args}")))
            }
            Renderer::Jinja => templates.jinja(source, text).map(Stage::Text),
            Renderer::Text => Ok(Stage::Text(text.to_owned())),
            Renderer::Yaml => templates.yaml(text).map(Stage::Data),
            Renderer::Json => render_json(text).map(Stage::Data),
            Renderer::Gpg => decrypted(source, input, templates),
            Renderer::Python(name) => Err(RenderError::new(format!(
                "{name} is not a renderer of ours"
            ))),
        }
    }
}

fn decrypted(
    source: &Source,
    input: Option<Stage>,
    templates: &dyn Templates,
) -> Result<Stage, RenderError> {
    let (mut data, is_text) = match input {
        None => (Value::from(source.text), true),
        Some(Stage::Text(text)) => (Value::Str(text), true),
        Some(Stage::Data(data)) => (data, false),
    };
    templates.gpg(source, &mut data)?;
    match data {
        Value::Str(text) if is_text => Ok(Stage::Text(text)),
        _ if is_text => Err(RenderError::new("the decrypted text is not UTF-8")),
        data => Ok(Stage::Data(data)),
    }
}

/// `salt/renderers/yaml.py`: empty or false data become an empty map.
pub fn render_yaml(text: &str) -> Result<Value, RenderError> {
    let data = yaml::parse(text).map_err(|e| {
        let message = if e
            .message
            .contains("found character '\\t' that cannot start any token")
        {
            "Illegal tab character".to_owned()
        } else {
            e.message
        };
        RenderError::at(message, e.line, text)
    })?;
    if data.truthy() {
        Ok(data)
    } else {
        Ok(Value::Map(Map::new()))
    }
}

/// `salt/renderers/json.py`: a first line with `#!` is dropped.
pub fn render_json(text: &str) -> Result<Value, RenderError> {
    let text = match text.strip_prefix("#!") {
        Some(rest) => rest.split_once('\n').map_or("", |(_, rest)| rest),
        None => text,
    };
    if text.trim().is_empty() {
        return Ok(Value::Map(Map::new()));
    }
    halite_wire::json::parse(text.as_bytes()).map_err(|e| RenderError::new(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    struct Upper;

    impl Templates for Upper {
        fn jinja(&self, _: &Source, text: &str) -> Result<String, RenderError> {
            Ok(text.replace("{{x}}", "X"))
        }
    }

    fn compile(text: &str, blacklist: &[&str]) -> Result<Value, String> {
        let pipeline = Pipeline {
            default: "jinja|yaml".into(),
            blacklist: blacklist.iter().map(|s| (*s).to_owned()).collect(),
            whitelist: Vec::new(),
        };
        let none = Map::new();
        let source = Source {
            text,
            path: "t",
            saltenv: "base",
            sls: "t",
            defaults: &none,
        };
        pipeline.compile(&source, &Upper).map_err(|e| e.to_string())
    }

    #[test]
    fn pipes() {
        let empty = || Ok(Value::Map(Map::new()));
        assert_eq!(compile("a: {{x}}", &[]), Ok(map! {"a" => "X"}.into()));
        assert_eq!(compile("#!yaml\na: 0x10", &[]), Ok(map! {"a" => 16}.into()));
        assert_eq!(
            compile("#!json\n{\"a\": 1.0}", &[]),
            Ok(map! {"a" => 1.0}.into())
        );
        assert_eq!(
            compile("#!jinja|json\n{\"a\": \"{{x}}\"}", &[]),
            Ok(map! {"a" => "X"}.into())
        );
        assert_eq!(compile("#!jinja\n{{x}}", &[]), Ok("#!jinja\nX".into()));
        assert_eq!(
            compile("#!yaml_jinja\na: {{x}}", &[]),
            Ok(map! {"a" => "X"}.into())
        );
        // A path names no renderers.
        assert_eq!(compile("#!/bin/sh\n", &[]), empty());
        assert_eq!(compile("", &[]), empty());
        assert_eq!(compile(" \n", &[]), empty());
        assert_eq!(compile("a: 1", &["yaml", "jinja"]), empty());
        for (text, name) in [("#!py\n", "py"), ("#!nonsense\na: 1", "nonsense")] {
            let why = compile(text, &[]).unwrap_err();
            assert!(
                why.contains(&format!("\"{name}\"")) && why.contains("is not available"),
                "{why}"
            );
        }
        assert_eq!(compile("- 1", &[]), Ok(Value::Array(vec![1.into()])));
    }
}
