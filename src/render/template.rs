//! Jinja as Salt configures it: options, variables of an SLS, and the loader of `salt://`
//! (`salt/utils/templates.py render_jinja_tmpl`, `salt/utils/jinja.py SaltCacheLoader`).

use super::RenderError;
use super::files::{FileTree, text_of};
use halite_config::JinjaOptions;
use halite_jinja::{
    Environment, EnvironmentOptions, ErrorKind, HostFilters, LoadedTemplate, Obj, TemplateLoader,
};
use halite_sys::safe_open::open_finite;
use halite_wire::Map;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// Where the running template finds others.
#[derive(Default)]
struct TemplateLocation {
    files: Option<Rc<dyn FileTree>>,
    /// Base of relative names. Loading a template changes it.
    tpldir: String,
}

/// Jinja environments for SLS files and for all else, with caches of parsed templates.
pub struct TemplateEngine {
    sls: Environment,
    other: Environment,
    /// Jinja changes only texts that contain one of these.
    markers: Vec<String>,
    location: Rc<RefCell<TemplateLocation>>,
}

impl TemplateEngine {
    /// Environments with these options.
    pub fn new(jinja: &JinjaOptions) -> TemplateEngine {
        TemplateEngine::with_host_filters(jinja, None)
    }

    /// As [`TemplateEngine::new`], for templates of this host, which may look at it.
    pub fn with_host_filters(
        jinja: &JinjaOptions,
        host_filters: Option<HostFilters>,
    ) -> TemplateEngine {
        let location = Rc::new(RefCell::new(TemplateLocation::default()));
        let environment = |settings: &Map| {
            let loader = SaltLoader {
                location: location.clone(),
            };
            let options = EnvironmentOptions {
                host_filters,
                ..environment_options(jinja, settings)
            };
            Environment::new(options).with_loader(Rc::new(loader))
        };
        let mut markers = vec!["\r".to_owned()];
        for settings in [&jinja.jinja_sls_env, &jinja.jinja_env] {
            let o = environment_options(jinja, settings);
            markers.extend([o.block_start, o.variable_start, o.comment_start]);
            markers.extend(o.line_statement_prefix);
            markers.extend(o.line_comment_prefix);
            if o.newline_sequence != "\n" {
                // Every line break changes.
                markers.push(String::new());
            }
        }
        markers.sort();
        markers.dedup();
        TemplateEngine {
            markers,
            sls: environment(&jinja.jinja_sls_env),
            other: environment(&jinja.jinja_env),
            location,
        }
    }

    /// Whether Jinja would leave a text unchanged, because it contains no markup.
    pub fn is_plain(&self, text: &str) -> bool {
        !self.markers.iter().any(|sign| text.contains(sign.as_str()))
    }

    /// Renders `text`. `context` has all variables, including those of [`sls_context`]; other templates are
    /// loaded from `files`.
    ///
    /// # Errors
    /// In Salt's wording, with the lines around the location.
    pub fn render(
        &self,
        text: &str,
        sls: &str,
        files: Rc<dyn FileTree>,
        context: Vec<(String, Obj)>,
    ) -> Result<String, RenderError> {
        let tpldir = context.iter().find(|(name, _)| name == "tpldir");
        let location = TemplateLocation {
            files: Some(files),
            tpldir: tpldir
                .and_then(|(_, v)| v.as_str())
                .unwrap_or(".")
                .to_owned(),
        };
        let environment = if sls.is_empty() {
            &self.other
        } else {
            &self.sls
        };
        // A template may render another one.
        let before = self.location.replace(location);
        let result = environment.render(text, "<template>", context);
        self.location.replace(before);
        let mut out = result.map_err(|e| match e.kind() {
            ErrorKind::Limit => RenderError::new(format!("Jinja error: {}", e.message())),
            _ => RenderError::new(e.salt_text()),
        })?;
        if text.ends_with('\n') {
            out.push('\n');
        }
        Ok(out)
    }
}

/// Jinja options by name. Unknown ones are logged and ignored.
fn environment_options(jinja: &JinjaOptions, settings: &Map) -> EnvironmentOptions {
    let mut o = EnvironmentOptions {
        strict_undefined: !jinja.allow_undefined,
        ..EnvironmentOptions::default()
    };
    for (name, value) in settings.iter() {
        let name = name.as_str().unwrap_or_default().to_lowercase();
        let text = || value.as_str().map(str::to_owned);
        let slot = match name.as_str() {
            "trim_blocks" => {
                o.trim_blocks = value.truthy();
                continue;
            }
            "lstrip_blocks" => {
                o.lstrip_blocks = value.truthy();
                continue;
            }
            "keep_trailing_newline" => {
                o.keep_trailing_newline = value.truthy();
                continue;
            }
            "line_statement_prefix" => {
                o.line_statement_prefix = text();
                continue;
            }
            "line_comment_prefix" => {
                o.line_comment_prefix = text();
                continue;
            }
            "block_start_string" => &mut o.block_start,
            "block_end_string" => &mut o.block_end,
            "variable_start_string" => &mut o.variable_start,
            "variable_end_string" => &mut o.variable_end,
            "comment_start_string" => &mut o.comment_start,
            "comment_end_string" => &mut o.comment_end,
            "newline_sequence" => &mut o.newline_sequence,
            other => {
                log::warn!("Jinja2 environment {other} is not recognized");
                continue;
            }
        };
        if let Some(text) = text().filter(|text| !text.is_empty()) {
            *slot = text;
        }
    }
    o.trim_blocks |= jinja.jinja_trim_blocks;
    o.lstrip_blocks |= jinja.jinja_lstrip_blocks;
    o
}

/// The variables with the location of a template (`generate_sls_context`).
pub fn sls_context(path: &str, sls: &str) -> Vec<(String, Obj)> {
    let mut slspath = sls.replace('.', "/");
    slspath.truncate(slspath.trim_end_matches('/').len());
    let mut context: Vec<(String, Obj)> = Vec::new();
    let mut put = |name: &str, text: &str| context.push((name.to_owned(), Obj::str_from(text)));
    let template = if sls.is_empty() {
        path.rsplit('/').next().unwrap_or(path)
    } else if path.ends_with(&format!("{slspath}.sls")) {
        &path[path.len() - slspath.len() - 4..]
    } else if path.ends_with(&format!("{slspath}/init.sls")) {
        &path[path.len() - slspath.len() - 9..]
    } else {
        let parent = sls.rsplit_once('/').map_or(".", |(dir, _)| dir);
        put("tplpath", path);
        put("tplfile", sls);
        put("tpldir", parent);
        return context;
    };
    let dir = template
        .rsplit_once('/')
        .map_or("", |(dir, _)| dir)
        .to_owned();
    put("tplpath", path);
    put("tplfile", template);
    put("tpldir", if dir.is_empty() { "." } else { &dir });
    put("tpldot", &dir.replace('/', "."));
    put("slspath", &dir);
    put("slsdotpath", &dir.replace('/', "."));
    put("slscolonpath", &dir.replace('/', ":"));
    put("sls_path", &dir.replace('/', "_"));
    context
}

/// Loads other templates. Names that start with `./` or `../` are relative to the template loaded last, and
/// cannot leave the root; absolute ones are files of this host (`salt/utils/jinja.py SaltCacheLoader.get_source`).
struct SaltLoader {
    location: Rc<RefCell<TemplateLocation>>,
}

impl TemplateLoader for SaltLoader {
    fn load(&self, name: &str, _: Option<&str>) -> Result<Option<LoadedTemplate>, String> {
        let name = name.strip_prefix("salt://").unwrap_or(name);
        let mut location = self.location.borrow_mut();
        let relative = matches!(name.split('/').next(), Some("." | ".."));
        let full = if relative {
            match normal(&format!("{}/{name}", location.tpldir)) {
                Some(full) => full,
                None => {
                    log::warn!(
                        "Discarded template path \"{name}\": attempts to ascend outside of salt://"
                    );
                    return Ok(None);
                }
            }
        } else {
            name.to_owned()
        };
        let dir = if relative {
            location.tpldir.clone()
        } else {
            full.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned()
        };
        let shown = if dir.is_empty() { "." } else { &dir };
        let globals = vec![
            (
                "tplfile".to_owned(),
                Obj::str_from(if relative { name } else { &full }),
            ),
            ("tpldir".to_owned(), Obj::str_from(shown)),
            ("tpldot".to_owned(), Obj::str_from(dir.replace('/', "."))),
        ];
        location.tpldir = shown.to_owned();
        if full.starts_with('/') && location.files.is_some() && Path::new(&full).exists() {
            let file = open_finite(Path::new(&full)).map_err(|e| e.to_string());
            let source = file.and_then(text_of);
            let source = source.map_err(|e| format!("{full}: {e}"))?;
            return Ok(Some(LoadedTemplate {
                source,
                name: full,
                globals,
            }));
        }
        let found = location.files.as_ref().and_then(|files| files.find(&full));
        Ok(found.map(|file| LoadedTemplate {
            source: file.text.to_string(),
            name: file.path.to_string_lossy().into_owned(),
            globals,
        }))
    }
}

/// A path without `.` and `..`; `None` if it leaves the root.
fn normal(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_of_an_sls() {
        let show = |path, sls| {
            let context = sls_context(path, sls);
            let texts = context
                .iter()
                .map(|(n, v)| format!("{n}={}", v.as_str().unwrap_or("?")));
            texts.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            show("/r/a/b.sls", "a.b"),
            "tplpath=/r/a/b.sls tplfile=a/b.sls tpldir=a tpldot=a slspath=a slsdotpath=a slscolonpath=a sls_path=a"
        );
        assert_eq!(
            show("/r/a/b/init.sls", "a.b"),
            "tplpath=/r/a/b/init.sls tplfile=a/b/init.sls tpldir=a/b tpldot=a.b slspath=a/b slsdotpath=a.b slscolonpath=a:b sls_path=a_b"
        );
        assert_eq!(
            show("/r/top.sls", ""),
            "tplpath=/r/top.sls tplfile=top.sls tpldir=. tpldot= slspath= slsdotpath= slscolonpath= sls_path="
        );
        assert_eq!(normal("a/../b/./c"), Some("b/c".into()));
        assert_eq!(normal("./../b"), None);
    }
}
