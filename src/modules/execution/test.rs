//! `test`: checks of the minion and its connection.

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, MODULES, python};
use crate::grains::COMPAT_VERSION;
use crate::versions;
use halite_crypto::HashType;
use halite_wire::map;
use halite_wire::{Map, Value};
use rand::Rng;
use std::time::{Duration, Instant};

const SIZE: &[Arg] = &[
    opt("size", Lit::Int(9_999_999_999)),
    opt("hash_type", Lit::Nil),
];

pub(super) const MODULE: Module = Module {
    name: "test",
    functions: &[
        Function::new("ping", |_| Ok(true.into()), "Returns true: the minion is up and accepts jobs. Not an ICMP ping."),
        Function::new("true", |_| Ok(true.into()), "Always returns true.").inner("true_"),
        Function::new("false", |_| Ok(false.into()), "Always returns false.").inner("false_"),
        Function::new("echo", |c| Ok(c.arg("text").clone()), "Returns its argument.").args(&[req("text")]),
        Function::new("outputter", |c| Ok(c.arg("data").clone()), "Returns its argument, to try an outputter.")
            .args(&[req("data")]),
        Function::new("arg", arg, "Returns its positional arguments and keywords, including those the job adds.")
            .varargs()
            .keywords(),
        Function::new("arg_repr", arg_repr, "Returns its arguments and keywords as Python would print them.")
            .varargs()
            .keywords(),
        Function::new("arg_type", arg_type, "Returns the Python type of each argument and keyword.")
            .varargs()
            .keywords(),
        Function::new("arg_clean", arg_clean, "Like test.arg, without the keywords that start with two underscores.")
            .varargs()
            .keywords(),
        Function::new("kwarg", |c| Ok(std::mem::take(&mut c.bound.kwargs).into()), "Returns its keywords, including those the job adds.")
            .keywords(),
        Function::new("version", |_| Ok(COMPAT_VERSION.into()), "The Salt release that this minion is compatible with."),
        Function::new("versions_information", |_| Ok(versions::information().into()), "Versions of the minion, its libraries and its host, as a map."),
        Function::new("versions_report", |_| Ok(versions::report().into()), "Versions of the minion, its libraries and its host, as text."),
        Function::new("versions", |_| Ok(versions::report().into()), "Alias of test.versions_report.").inner("versions_report"),
        Function::new("sleep", sleep, "Sleeps for a number of seconds, then returns true.").args(&[req("length")]),
        Function::new("rand_sleep", rand_sleep, "Sleeps for a random number of seconds up to max, then returns true.")
            .args(&[opt("max", Lit::Int(60))]),
        Function::new("fib", fib, "The num-th Fibonacci number, and the seconds it took.").args(&[req("num")]),
        Function::new("collatz", collatz, "The Collatz sequence from a starting number, and the seconds it took.")
            .args(&[req("start")]),
        Function::new("retcode", retcode, "Returns true with the given return code.")
            .args(&[opt("code", Lit::Int(42))]),
        Function::new("provider", provider, "The name of the file that provides a module; empty if there is none.")
            .args(&[req("module")]),
        Function::new("providers", |_| Ok(providers().into()), "All modules with the name of the file that provides each."),
        Function::new("not_loaded", |_| Ok(Value::Array(Vec::new())), "Modules that could not be loaded: none, because all are built in."),
        Function::new("cross_test", cross_test, "Runs another function through the function table.")
            .args(&[req("func"), opt("args", Lit::Nil)]),
        Function::new("attr_call", |c| c.salt("grains.items", Vec::new(), Map::new()), "Runs grains.items through the function table."),
        Function::new("try", try_, "Runs another function; returns nothing if it fails, or the error text with return_try_exception.")
            .args(&[req("module"), opt("return_try_exception", Lit::Bool(false))])
            .keywords()
            .inner("try_"),
        Function::new("get_opts", |c| Ok(Map::clone(&c.ctx.opts).into()), "The minion's configuration."),
        Function::new("conf_test", conf_test, "The value of test.foo in the minion's configuration, or its default."),
        Function::new("rand_str", random_hash, "Old name of test.random_hash.").args(SIZE),
        Function::new("random_hash", random_hash, "The hash of a random number below size, by hash_type or the configured one.").args(SIZE),
        Function::new("exception", exception, "Raises an exception with the given message.")
            .args(&[opt("message", Lit::Str("Test Exception"))]),
        Function::new("assertion", assertion, "Fails unless its argument is true.").args(&[req("assertion")]),
        Function::new("stack", |_| Ok("  halite::minion::modules::call\n    test.stack\n".into()), "The call stack, here always a single frame."),
        Function::new("deprecation_warning", |_| Ok(true.into()), "Returns true; nothing here is deprecated."),
        Function::new("tty", |_| Ok("ERROR: This function has been moved to cmd.tty".into()), "Old name of cmd.tty, to which it only refers.")
            .varargs()
            .keywords(),
        Function::new("opts_pkg", opts_pkg, "The minion's configuration with its grains."),
        Function::new("module_report", module_report, "All functions and modules."),
        Function::new("raise_exception", raise_exception, "Raises one of Python's or Salt's exceptions by its name; returns false if there is none.")
            .args(&[req("name")])
            .varargs()
            .keywords(),
    ],
};

fn opts_pkg(call: &mut Call<'_>) -> Result {
    let mut opts = Map::clone(&call.ctx.opts);
    opts.set("grains", Map::clone(&call.ctx.grains));
    Ok(opts.into())
}

/// There is only one way to reach functions, so none can be missing.
fn module_report(_: &mut Call<'_>) -> Result {
    let names: Vec<String> = super::functions()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let modules: Vec<String> = MODULES.iter().map(|m| m.name.to_owned()).collect();
    Ok(map! {
        "functions" => names.clone(), "function_attrs" => names.clone(), "function_subs" => names,
        "modules" => modules.clone(), "module_attrs" => modules,
        "missing_attrs" => Vec::<String>::new(), "missing_subs" => Vec::<String>::new(),
    }
    .into())
}

/// Exceptions of `test.raise_exception`.
const EXCEPTIONS: [&str; 14] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "Exception",
    "IndexError",
    "KeyError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "OSError",
    "RuntimeError",
    "TypeError",
    "ValueError",
    "ZeroDivisionError",
];

fn raise_exception(call: &mut Call<'_>) -> Result {
    let name = call.text("name").unwrap_or_default();
    let args = &call.bound.varargs;
    let text = match args.as_slice() {
        [] => String::new(),
        [one] => python::str(one),
        several => python::repr_tuple(several),
    };
    Err(match name.as_str() {
        "salt.exceptions.CommandExecutionError" => CallError::Command(text),
        "salt.exceptions.CommandNotFoundError" => CallError::CommandNotFound(text),
        "salt.exceptions.SaltInvocationError" => CallError::Invocation(text),
        "TypeError" => CallError::Type(text),
        "KeyError" => CallError::raised(
            "KeyError",
            args.first().map(python::repr).unwrap_or_default(),
        ),
        known if EXCEPTIONS.contains(&known) => CallError::raised(known, text),
        unknown => {
            log::error!("No such exception: {unknown}");
            return Ok(false.into());
        }
    })
}

fn arg(call: &mut Call<'_>) -> Result {
    Ok(map! {
        "args" => std::mem::take(&mut call.bound.varargs),
        "kwargs" => std::mem::take(&mut call.bound.kwargs),
    }
    .into())
}

fn arg_repr(call: &mut Call<'_>) -> Result {
    Ok(map! {
        "args" => python::repr_tuple(&call.bound.varargs),
        "kwargs" => python::repr_map(&call.bound.kwargs),
    }
    .into())
}

fn arg_type(call: &mut Call<'_>) -> Result {
    let args: Vec<Value> = call
        .bound
        .varargs
        .iter()
        .map(|v| python::class(v).into())
        .collect();
    let kwargs: Map = call
        .bound
        .kwargs
        .iter()
        .map(|(k, v)| (k.clone(), python::class(v)))
        .collect();
    Ok(map! {"args" => args, "kwargs" => kwargs}.into())
}

fn arg_clean(call: &mut Call<'_>) -> Result {
    call.bound
        .kwargs
        .0
        .retain(|(k, _)| !k.as_str().is_some_and(|k| k.starts_with("__")));
    arg(call)
}

fn sleep(call: &mut Call<'_>) -> Result {
    let seconds = u64::try_from(python::int(call.arg("length"))?)
        .map_err(|_| CallError::raised("ValueError", "sleep length must be non-negative"))?;
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(true.into())
}

fn rand_sleep(call: &mut Call<'_>) -> Result {
    let max = python::int(call.arg("max"))?;
    let max = u64::try_from(max).map_err(|_| {
        CallError::raised("ValueError", format!("empty range in randint(0, {max})"))
    })?;
    std::thread::sleep(Duration::from_secs(rand::thread_rng().gen_range(0..=max)));
    Ok(true.into())
}

/// Unbounded decimal numbers, least significant nine digits first: Fibonacci numbers exceed 64 bits at 94, and
/// msgpack then carries them as text.
struct Decimal(Vec<u32>);

impl Decimal {
    const BASE: u32 = 1_000_000_000;

    fn add(&mut self, other: &Decimal) {
        let mut carry = 0;
        for i in 0..self.0.len().max(other.0.len()) {
            let a = self.0.get(i).copied().unwrap_or(0);
            let sum = a + other.0.get(i).copied().unwrap_or(0) + carry;
            carry = sum / Self::BASE;
            match self.0.get_mut(i) {
                Some(slot) => *slot = sum % Self::BASE,
                None => self.0.push(sum % Self::BASE),
            }
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    fn value(&self) -> Value {
        let mut text = String::new();
        for (i, part) in self.0.iter().rev().enumerate() {
            text += &if i == 0 {
                part.to_string()
            } else {
                format!("{part:09}")
            };
        }
        match text.parse::<u64>() {
            Ok(small) => small.into(),
            Err(_) => text.into(),
        }
    }
}

fn fib(call: &mut Call<'_>) -> Result {
    let num = python::int(call.arg("num"))?;
    if num < 0 {
        return Err(CallError::raised(
            "ValueError",
            "Negative number is not allowed!",
        ));
    }
    let start = Instant::now();
    let (mut current, mut next) = (Decimal(vec![0]), Decimal(vec![1]));
    for _ in 0..num {
        current.add(&next);
        std::mem::swap(&mut current, &mut next);
    }
    Ok(vec![current.value(), start.elapsed().as_secs_f64().into()].into())
}

/// As in stock, halving makes floats of integers. Numbers below one, which never terminate in stock, are rejected.
fn collatz(call: &mut Call<'_>) -> Result {
    let first = python::int(call.arg("start"))?;
    if first < 1 {
        return Err(CallError::raised(
            "ValueError",
            "the Collatz sequence needs a number above zero",
        ));
    }
    let begin = Instant::now();
    let mut steps: Vec<Value> = Vec::new();
    let mut value = Value::Int(first);
    loop {
        value = match value {
            Value::Int(1) => break,
            Value::Float(1.0) => break,
            Value::Int(i) => {
                steps.push(i.into());
                if i % 2 == 0 {
                    (i as f64 / 2.0).into()
                } else {
                    i.checked_mul(3)
                        .and_then(|x| x.checked_add(1))
                        .map_or((i as f64 * 3.0 + 1.0).into(), Value::Int)
                }
            }
            Value::Float(f) => {
                steps.push(f.into());
                if f % 2.0 == 0.0 {
                    (f / 2.0).into()
                } else {
                    (f * 3.0 + 1.0).into()
                }
            }
            _ => break,
        };
    }
    Ok(vec![
        Value::from(steps),
        Value::from(begin.elapsed().as_secs_f64()),
    ]
    .into())
}

fn retcode(call: &mut Call<'_>) -> Result {
    call.retcode = call.arg("code").clone();
    Ok(true.into())
}

fn provider(call: &mut Call<'_>) -> Result {
    let wanted = call.text("module").unwrap_or_default();
    let found = providers().get(&wanted).cloned();
    Ok(found.unwrap_or_else(|| "".into()))
}

fn providers() -> Map {
    MODULES.iter().map(|m| (m.name, m.name)).collect()
}

fn cross_test(call: &mut Call<'_>) -> Result {
    let func = call.text("func").unwrap_or_default();
    let args = match call.arg("args") {
        Value::Nil => Vec::new(),
        Value::Array(list) => list.clone(),
        // Python unpacks text into characters.
        Value::Str(s) => s.chars().map(|c| c.to_string().into()).collect(),
        other => {
            return Err(CallError::Type(format!(
                "argument after * must be an iterable, not {}",
                python::type_name(other)
            )));
        }
    };
    named(call, &func, args, Map::new())
}

/// Calls a function that the user has named.
fn named(call: &mut Call<'_>, fun: &str, args: Vec<Value>, kwargs: Map) -> Result {
    if !super::is_listed(call.ctx, fun) {
        return Err(CallError::raised("KeyError", format!("'{fun}'")));
    }
    call.salt(fun, args, kwargs)
}

fn try_(call: &mut Call<'_>) -> Result {
    let module = call.text("module").unwrap_or_default();
    let kwargs = std::mem::take(&mut call.bound.kwargs);
    let keep = call.flag("return_try_exception");
    Ok(match named(call, &module, Vec::new(), kwargs) {
        Ok(ret) => ret,
        Err(fault) if keep => fault.message().into(),
        Err(_) => Value::Nil,
    })
}

fn conf_test(call: &mut Call<'_>) -> Result {
    let value = call.ctx.opts.get("test.foo").cloned();
    Ok(value.unwrap_or_else(|| "unconfigured".into()))
}

fn random_hash(call: &mut Call<'_>) -> Result {
    let size = python::int(call.arg("size"))?.max(1);
    let kind = match call.text("hash_type").filter(|t| !t.is_empty()) {
        Some(kind) => kind,
        None => call
            .ctx
            .opts
            .str("hash_type")
            .unwrap_or("sha256")
            .to_owned(),
    };
    let number = rand::thread_rng().gen_range(1..=size).to_string();
    Ok(hash_type(&kind)?.hex(number.as_bytes()).into())
}

/// A hash function by its configured name.
fn hash_type(name: &str) -> Result<HashType> {
    name.parse::<HashType>()
        .map_err(|e| CallError::raised("ValueError", e.to_string()))
}

fn exception(call: &mut Call<'_>) -> Result {
    let message = python::str(call.arg("message"));
    Err(CallError::raised("Exception", message))
}

fn assertion(call: &mut Call<'_>) -> Result {
    if call.flag("assertion") {
        return Ok(Value::Nil);
    }
    Err(CallError::raised("AssertionError", ""))
}
