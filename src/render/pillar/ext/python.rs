//! External pillars in Python files of users (`_pillar`, `pillar_dirs`), and those of an installed Salt.

use super::super::super::python::{MasterPython, text_of};
use super::super::Compilation;
use super::ExtResult;
use halite_wire::{Map, Value};
use std::rc::Rc;

impl Compilation<'_> {
    /// Python, if it has an external pillar of this name; `is_ours` if halite has one, too.
    pub(super) fn python_pillar(&self, name: &str, is_ours: bool) -> Option<Rc<MasterPython>> {
        let python = self.master.context.python.clone()?;
        let function = format!("{name}.ext_pillar");
        let renderer = self.renderer();
        python
            .has(renderer.about(), "pillar", &function, is_ours)
            .then_some(python)
    }

    /// `ext_pillar(minion_id, pillar, ...)`: a map gives keywords, a list positional arguments, anything else one
    /// (`Pillar._external_pillar_data`).
    pub(super) fn by_python(
        &self,
        python: &MasterPython,
        name: &str,
        given: &Value,
        pillar: &Map,
    ) -> ExtResult {
        let mut args = vec![self.request.id.as_str().into(), pillar.clone().into()];
        let mut keywords = Map::new();
        match given {
            Value::Map(map) => keywords = map.clone(),
            Value::Array(list) => args.extend(list.iter().cloned()),
            one => args.push(one.clone()),
        }
        let mut optional = Map::new();
        if !self.request.extra_minion_data.is_empty() {
            optional.set("extra_minion_data", self.request.extra_minion_data.clone());
        }
        let renderer = self.renderer();
        let function = format!("{name}.ext_pillar");
        let done = python.call(
            renderer.about(),
            "pillar",
            &function,
            args,
            keywords,
            optional,
        );
        done.map_err(text_of)
    }
}
