//! External pillars in Python files of users (`_pillar`, `pillar_dirs`), and those of an installed Salt.

use super::super::super::python::{About, MasterPython};
use super::super::Compilation;
use super::ExtResult;
use halite_wire::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;

impl Compilation<'_> {
    /// Python, if it has an external pillar of this name; `is_ours` if halite has one, too.
    pub(super) fn python_pillar(
        &self,
        name: &str,
        is_ours: bool,
        pillar: &Map,
    ) -> Result<Option<Rc<MasterPython>>, String> {
        let Some(python) = self.master.context.python.clone() else {
            return Ok(None);
        };
        let function = format!("{name}.ext_pillar");
        if !python.is_possible("pillar", &function, is_ours) {
            return Ok(None);
        }
        let there = python.has(&self.about_ext(pillar), "pillar", &function, is_ours)?;
        Ok(there.then_some(python))
    }

    /// What the log says about an external pillar that halite does not have and whose file has none, if there is one.
    pub(super) fn fault_of_pillar(&self, name: &str, pillar: &Map) -> Option<String> {
        let python = self.master.context.python.clone()?;
        let function = format!("{name}.ext_pillar");
        python.fault(&self.about_ext(pillar), "pillar", &function)
    }

    /// What an external pillar sees: the options have the master's own id (`Pillar.__init__`, `ext_pillar_opts`).
    fn about_ext(&self, pillar: &Map) -> About {
        let about = self.renderer().about().clone();
        let mut opts = self.ext_opts.borrow_mut();
        let opts = opts.get_or_insert_with(|| {
            let mut opts = Map::clone(&about.opts);
            opts.set("id", self.master.context.opts.str("id").unwrap_or_default());
            Arc::new(opts)
        });
        About {
            opts: opts.clone(),
            pillar: Arc::new(pillar.clone()),
            ..about
        }
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
        let about = self.about_ext(pillar);
        let function = format!("{name}.ext_pillar");
        python.call(&about, "pillar", &function, args, keywords, optional)
    }
}
