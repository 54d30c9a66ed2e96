//! The state of one run of a template, and what it offers to filters, tests and methods.

use super::ast::Template;
use super::env::Inner;
use super::error::Error;
use super::run::{Base, Context, Frame, ModuleObject, Vars};
use super::value::{Args, Obj, Undefined, UndefinedKind};
use super::{filters, methods, stack, tests};
use halite_target::{MeteredRegex, RegexFlags, RegexMeter};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// The state of one run.
pub struct Cx {
    pub(super) env: Rc<Inner>,
    pub(super) autoescape: bool,
    /// The text captured by a filter block or a block assignment.
    pub(super) captured: Option<Obj>,
    /// Stack pointer at the start.
    pub(super) stack: usize,
    pub(super) run: Run,
    fuel: u64,
    depth: usize,
    regexes: HashMap<(String, RegexFlags), Rc<MeteredRegex>>,
}

/// Most compiled patterns kept; all are dropped when there are more.
const MAX_REGEXES: usize = 64;

/// State shared by all templates of a run.
#[derive(Default)]
pub(super) struct Run {
    /// Global variables set by loaded templates.
    pub(super) globals: Vars,
    /// Global variables from the start.
    pub(super) base: Option<Rc<Base>>,
    /// Loaded templates by name.
    pub(super) templates: HashMap<Rc<str>, Rc<Template>>,
    /// Modules by template.
    pub(super) modules: HashMap<usize, (Rc<Template>, Rc<ModuleObject>)>,
    /// The template that the running one extends.
    pub(super) parent: Option<Rc<Template>>,
    /// Scopes referenced by macros, to be cleared at the end.
    pub(super) frames: Vec<Weak<Frame>>,
    /// All contexts of the run.
    pub(super) contexts: Vec<Weak<Context>>,
}

impl Cx {
    pub(super) fn new(env: Rc<Inner>) -> Cx {
        Cx {
            autoescape: env.options.autoescape,
            captured: None,
            stack: stack::pointer(),
            run: Run::default(),
            fuel: env.options.fuel,
            depth: 0,
            regexes: HashMap::new(),
            env,
        }
    }

    /// The environment's options.
    pub fn options(&self) -> &super::EnvironmentOptions {
        &self.env.options
    }

    /// Whether output is escaped here (`{% autoescape true %}`; off by default in Salt).
    pub fn autoescape(&self) -> bool {
        self.autoescape
    }

    /// Charges for work. One step is about one element or a hundred bytes.
    ///
    /// # Errors
    /// The template has used up its steps.
    pub fn charge(&mut self, steps: usize) -> Result<(), Error> {
        match self.fuel.checked_sub(steps as u64) {
            Some(rest) => self.fuel = rest,
            None => {
                self.fuel = 0;
                return Err(Error::limit("the template takes too many steps"));
            }
        }
        Ok(())
    }

    /// Must be called before creating a text of this many bytes, or a list of this many elements.
    ///
    /// # Errors
    /// It is larger than the environment allows.
    pub fn check_size(&mut self, size: usize) -> Result<(), Error> {
        let limit = self.env.options.max_size;
        if size > limit {
            return Err(Error::limit(format!(
                "a value of the template would be larger than {limit}"
            )));
        }
        self.charge(size / 32)
    }

    /// A compiled pattern, whose searches this run pays for. The inner error says why it cannot be used.
    ///
    /// # Errors
    /// The template has used up its steps.
    pub(super) fn regex(
        &mut self,
        pattern: &str,
        flags: RegexFlags,
    ) -> Result<Result<Rc<MeteredRegex>, String>, Error> {
        self.charge(1 + pattern.len() / 64)?;
        let key = (pattern.to_owned(), flags);
        if let Some(regex) = self.regexes.get(&key) {
            return Ok(Ok(regex.clone()));
        }
        let regex = match MeteredRegex::new(pattern, flags, self)? {
            Ok(regex) => Rc::new(regex),
            Err(why) => return Ok(Err(why)),
        };
        if self.regexes.len() >= MAX_REGEXES {
            self.regexes.clear();
        }
        self.regexes.insert(key, regex.clone());
        Ok(Ok(regex))
    }

    /// An undefined value with its own message.
    pub fn undefined(&self, hint: impl Into<String>) -> Obj {
        self.missing(UndefinedKind::Hint(hint.into()))
    }

    /// The undefined value for an unknown variable.
    pub fn undefined_name(&self, name: &str) -> Obj {
        self.missing(UndefinedKind::Name(Rc::from(name)))
    }

    /// The undefined value for a missing attribute or element of `owner`.
    pub fn undefined_element(&self, owner: &Obj, key: &Obj) -> Obj {
        self.missing(UndefinedKind::Element {
            owner: owner.described(),
            key: key.clone(),
        })
    }

    pub(super) fn missing(&self, what: UndefinedKind) -> Obj {
        Obj::Undefined(Rc::new(Undefined {
            strict: self.env.options.strict_undefined,
            what,
        }))
    }

    /// The elements of a value, as in `list(value)`.
    ///
    /// # Errors
    /// It cannot be iterated.
    pub fn iterate(&mut self, value: &Obj) -> Result<Vec<Obj>, Error> {
        let items = match value {
            Obj::List(list) => list.borrow().clone(),
            Obj::Tuple(items) => items.to_vec(),
            Obj::Dict(dict) => dict.borrow().keys().cloned().collect(),
            Obj::Set(set) => set.borrow().iter().cloned().collect(),
            Obj::Str(text) | Obj::Markup(text) => text.chars().map(Obj::from).collect(),
            Obj::Bytes(bytes) => bytes.iter().map(|b| Obj::Int((*b).into())).collect(),
            Obj::View(view) => view.items(),
            Obj::Iter(iter) => iter.take(),
            Obj::Range(range) => {
                self.check_size(range.len())?;
                range.iter().collect()
            }
            Obj::Undefined(missing) => {
                missing.check()?;
                Vec::new()
            }
            Obj::Native(object) => match object.clone().iter(self)? {
                Some(items) => items,
                None => return Err(not_iterable(value)),
            },
            _ => return Err(not_iterable(value)),
        };
        self.charge(items.len())?;
        Ok(items)
    }

    /// The attribute `value.name`, else the element `value[name]`: `value.name` in a template.
    ///
    /// # Errors
    /// `value` is undefined, or an object's own error.
    pub fn get_attr(&mut self, value: &Obj, name: &str) -> Result<Obj, Error> {
        super::ops::get_attr(self, value, name)
    }

    /// The element `value[key]`, else the attribute: `value[key]` in a template.
    ///
    /// # Errors
    /// `value` is undefined, or an object's own error.
    pub fn get_item(&mut self, value: &Obj, key: &Obj) -> Result<Obj, Error> {
        super::ops::get_item(self, value, key)
    }

    /// `item in container`.
    ///
    /// # Errors
    /// The container cannot be searched for it.
    pub fn contains(&mut self, container: &Obj, item: &Obj) -> Result<bool, Error> {
        super::ops::contains(self, container, item)
    }

    /// `function(*args)`.
    ///
    /// # Errors
    /// It is not a function, or it fails.
    pub fn call(&mut self, function: &Obj, args: &Args) -> Result<Obj, Error> {
        self.charge(1)?;
        match function {
            Obj::Native(object) => {
                self.enter()?;
                let result = object.clone().call(self, args);
                self.leave();
                result
            }
            Obj::Undefined(missing) => Err(missing.error()),
            _ => Err(Error::type_error(format!(
                "'{}' object is not callable",
                function.type_name()
            ))),
        }
    }

    /// `value.name(*args)`.
    ///
    /// # Errors
    /// The method does not exist, or it fails.
    pub fn call_method(&mut self, value: &Obj, name: &str, args: &Args) -> Result<Obj, Error> {
        if let Obj::Native(object) = value {
            self.charge(1)?;
            self.enter()?;
            let result = object.clone().call_method(self, name, args);
            self.leave();
            if let Some(result) = result? {
                return Ok(result);
            }
        } else if methods::has(value, name) {
            self.charge(1)?;
            return methods::call(self, value, name, args);
        }
        let function = self.get_attr(value, name)?;
        self.call(&function, args)
    }

    /// Applies a filter by name.
    ///
    /// # Errors
    /// The filter does not exist, or it fails.
    pub fn filter(&mut self, name: &str, value: &Obj, args: &Args) -> Result<Obj, Error> {
        let Some(filter) = filters::find(name) else {
            return Err(Error::runtime(format!("No filter named '{name}'.")));
        };
        self.charge(1)?;
        filter(self, value, args)
    }

    /// Applies a test by name.
    ///
    /// # Errors
    /// The test does not exist, or it fails.
    pub fn test(&mut self, name: &str, value: &Obj, args: &Args) -> Result<bool, Error> {
        let Some(test) = tests::find(name) else {
            return Err(Error::runtime(format!("No test named '{name}'.")));
        };
        self.charge(1)?;
        test(self, value, args)
    }

    /// Enters a call.
    pub(super) fn enter(&mut self) -> Result<(), Error> {
        if self.depth >= self.env.options.max_depth {
            return Err(Error::limit("the template calls itself too deeply"));
        }
        self.depth += 1;
        Ok(())
    }

    /// Leaves a call.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }
}

impl RegexMeter for Cx {
    type Error = Error;

    fn steps(&mut self, steps: usize) -> Result<(), Error> {
        self.charge(steps)
    }

    fn grown(&mut self, length: usize) -> Result<(), Error> {
        self.check_size(length)?;
        self.charge(10)
    }
}

fn not_iterable(value: &Obj) -> Error {
    Error::type_error(format!("'{}' object is not iterable", value.type_name()))
}
