//! Binds arguments of functions, filters and methods to their parameters, with Python's error messages.

use super::error::Error;
use super::value::{Args, Obj};
use std::rc::Rc;

impl Args {
    /// Positional arguments only.
    pub fn positional(items: impl IntoIterator<Item = Obj>) -> Args {
        Args {
            positional: items.into_iter().collect(),
            keyword: Vec::new(),
        }
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.positional.is_empty() && self.keyword.is_empty()
    }

    /// The value of a keyword argument.
    pub fn named(&self, name: &str) -> Option<&Obj> {
        let mut found = self.keyword.iter().filter(|(key, _)| key.as_ref() == name);
        found.next().map(|(_, value)| value)
    }

    /// Arguments in the order of the parameters `names`, passed by position or by name; `None` for missing ones.
    ///
    /// # Errors
    /// Too many arguments, an unknown name, or a parameter passed twice.
    pub fn bind(&self, function: &str, names: &[&str]) -> Result<Vec<Option<Obj>>, Error> {
        if self.positional.len() > names.len() {
            let takes = match names.len() {
                0 => "no arguments".to_owned(),
                1 => "at most 1 argument".to_owned(),
                n => format!("at most {n} arguments"),
            };
            let given = self.positional.len();
            return Err(Error::type_error(format!(
                "{function}() takes {takes} ({given} given)"
            )));
        }
        let mut bound: Vec<Option<Obj>> = vec![None; names.len()];
        for (slot, value) in bound.iter_mut().zip(&self.positional) {
            *slot = Some(value.clone());
        }
        for (key, value) in &self.keyword {
            let Some(index) = names.iter().position(|name| *name == key.as_ref()) else {
                return Err(Error::type_error(format!(
                    "{function}() got an unexpected keyword argument '{key}'"
                )));
            };
            if bound[index].replace(value.clone()).is_some() {
                return Err(Error::type_error(format!(
                    "{function}() got multiple values for argument '{key}'"
                )));
            }
        }
        Ok(bound)
    }

    /// Like [`Args::bind`], but the first `required` parameters must be present.
    ///
    /// # Errors
    /// See [`Args::bind`]; also a missing argument.
    pub fn bind_required(
        &self,
        function: &str,
        names: &[&str],
        required: usize,
    ) -> Result<Vec<Option<Obj>>, Error> {
        let bound = self.bind(function, names)?;
        let missing: Vec<&str> = names
            .iter()
            .zip(&bound)
            .take(required)
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| *name)
            .collect();
        if let Some(first) = missing.first() {
            let n = missing.len();
            let (plural, list) = match missing.as_slice() {
                [_] => ("", format!("'{first}'")),
                [init @ .., last] => ("s", format!("'{}' and '{last}'", init.join("', '"))),
                [] => ("", String::new()),
            };
            return Err(Error::type_error(format!(
                "{function}() missing {n} required positional argument{plural}: {list}"
            )));
        }
        Ok(bound)
    }

    /// The same arguments with one more in front.
    pub fn with_first(&self, first: Obj) -> Args {
        let mut positional = Vec::with_capacity(self.positional.len() + 1);
        positional.push(first);
        positional.extend(self.positional.iter().cloned());
        Args {
            positional,
            keyword: self.keyword.clone(),
        }
    }

    /// The arguments without a keyword argument, and its value.
    pub fn without(&self, name: &str) -> (Args, Option<Obj>) {
        let mut rest = self.clone();
        let at = rest
            .keyword
            .iter()
            .position(|(key, _)| key.as_ref() == name);
        let value = at.map(|at| rest.keyword.remove(at).1);
        (rest, value)
    }

    /// Adds a keyword argument.
    pub fn push_named(&mut self, name: impl Into<Rc<str>>, value: Obj) {
        self.keyword.push((name.into(), value));
    }
}
