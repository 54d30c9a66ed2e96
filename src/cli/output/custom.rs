//! Outputters in Python files of users (`_output`, `outputter_dirs`), and those of an installed Salt.

use super::{NAMES, Style};
use halite_python::{JobHost, Nothing, Scene, files};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "output";
/// How long it may take to show one result.
const LIMIT: Duration = Duration::from_secs(60);

/// Python for the outputters of one command.
pub struct CustomOutputters {
    opts: Arc<Map>,
    host: JobHost,
}

impl CustomOutputters {
    /// With these options. Nothing runs yet.
    pub fn new(opts: Map) -> CustomOutputters {
        CustomOutputters {
            opts: Arc::new(opts),
            host: JobHost::with_limit_of_each(LIMIT),
        }
    }

    /// The text for some data; `None` if there is no outputter of this name in Python.
    ///
    /// # Errors
    /// What it raises, or why Python cannot be asked.
    pub fn show(&self, name: &str, data: &Value, style: &Style) -> Option<Result<String, String>> {
        let ours = NAMES.iter().any(|(_, known)| *known == name);
        let is_possible = || files::files(&self.opts).is_possible(&self.opts, KIND, name, ours);
        if name.is_empty() || !is_possible() {
            return None;
        }
        let done = self.run(name, data, style, ours);
        done.map_err(|e| e.to_string()).transpose()
    }

    fn run(
        &self,
        name: &str,
        data: &Value,
        style: &Style,
        ours: bool,
    ) -> Result<Option<String>, halite_python::HostError> {
        let mut opts = Map::clone(&self.opts);
        opts.set("color", style.color);
        if let Some(indent) = style.indent {
            opts.set("output_indent", indent);
        }
        let scene = Scene {
            opts: Arc::new(opts),
            ..Scene::new(&self.opts)?
        };
        let function = format!("{name}.output");
        let ask =
            |what: &str, args: Vec<Value>| self.host.request(&scene, what, args, &mut Nothing);
        let find = vec![KIND.into(), function.as_str().into(), (!ours).into()];
        if !ask("find", find)?.truthy() {
            return Ok(None);
        }
        let more = halite_wire::map! {"_retcode" => style.retcode};
        let args = vec![data.clone()];
        let args = vec![
            KIND.into(),
            function.into(),
            args.into(),
            Map::new().into(),
            more.into(),
        ];
        let shown = ask("use", args)?;
        Ok(Some(match shown {
            Value::Nil => String::new(),
            other => super::python_str(&other),
        }))
    }
}
