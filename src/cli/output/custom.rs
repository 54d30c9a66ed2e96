//! Outputters in Python files of users (`_output`, `outputter_dirs`), and those of an installed Salt.

use super::{NAMES, Style};
use halite_python::questions::{find_args, use_args};
use halite_python::{HostError, JobHost, Nothing, Scene, files};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "output";
/// How long it may take to show one result.
const LIMIT: Duration = Duration::from_secs(60);

/// Python for the outputters of one command.
pub struct CustomOutputters {
    opts: Arc<Map>,
    /// Whether there may be any. Most commands need no other Python file, and are not to read them all.
    is_used: bool,
    host: JobHost,
}

impl CustomOutputters {
    /// With these options. Nothing runs yet.
    pub fn new(opts: Map) -> CustomOutputters {
        CustomOutputters {
            is_used: files::may_have_any(&opts, KIND) || files::installed_salt(&opts).is_some(),
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
        if !self.is_used || name.is_empty() || !files::is_possible(&self.opts, KIND, name, ours) {
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
    ) -> Result<Option<String>, HostError> {
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
        if !ask("find", find_args(KIND, &function, ours))?.truthy() {
            return Ok(None);
        }
        let more = halite_wire::map! {"_retcode" => style.retcode};
        let args = vec![data.clone()];
        let shown = ask("use", use_args(KIND, &function, args, Map::new(), more))?;
        match shown {
            Value::Nil => Err(HostError::Broken(format!("{function} returned nothing"))),
            other => Ok(Some(super::python_str(&other))),
        }
    }
}
