//! The interpreter: wasmi, one thread for each module, in slices of fuel.
//!
//! A call that has run out of fuel can be resumed; if the module must end it is not. Prices bound the time that a
//! slice takes: calls are expensive, because a call may have to clear as much of the stack as there are locals, and so
//! is everything that copies.

use super::inbox::Inbox;
use super::scan::Sizes;
use super::wasi::{self, State, Stopped};
use super::{End, Engine, Figures, Host, Running, Spec};
use crate::wire::ExitStatus;
use bytes::Bytes;
use halite_sys::process::add_nice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wasmi::{
    CompilationMode, Config, CustomFuelCosts, Error, Module, OperatorCost, Store, TypedFunc,
    TypedResumableCall,
};

/// The apis that the interpreter offers.
const APIS: [&str; 7] = [
    "wasm",
    "wasi",
    "wasi:snapshot_preview1",
    "channels",
    "delete_module",
    "stdio:in",
    "stdio:out",
];

/// Fuel of one slice: about as many simple instructions.
const SLICE: u64 = 200_000;
/// Price of a call, in simple instructions.
const CALL: u8 = 64;
/// Bytes copied for the price of a simple instruction. It also makes growing a table by a few elements free, see
/// [`super::limits::MemoryLimiter`].
const COPIED_PER_FUEL: u32 = 256;
/// Size of the interpreter's value stack, in bytes.
const STACK: usize = 2 << 20;
/// Depth of nested calls.
const DEPTH: usize = 10_000;
/// Size of the stack of a module's thread, in bytes. Calls of a module do not nest on it.
const THREAD_STACK: usize = 1 << 20;
/// Added to the nice value of modules: the connection and the loop come first.
const NICE: i32 = 5;
/// Characters of an error that are reported.
const WORDS: usize = 300;

/// The built-in engine.
pub(super) struct Interpreter {
    config: Config,
}

impl Interpreter {
    /// Creates the engine.
    pub(super) fn new() -> Interpreter {
        let costs = OperatorCost {
            call: CALL,
            call_indirect: CALL,
            return_call: CALL,
            return_call_indirect: CALL,
            memory_grow: u8::MAX,
            ..OperatorCost::default()
        };
        let mut config = Config::default();
        config
            .consume_fuel(true)
            .operator_cost(costs)
            .fuel_cost(CustomFuelCosts {
                bytes_copied_per_fuel: COPIED_PER_FUEL,
                // A call that runs out of fuel while its function is compiled cannot be resumed.
                fuel_per_bytes_translated: 0,
                fuel_per_bytes_validated: 0,
            })
            // Compile everything before the start: compiling a large function within a slice would make that slice
            // long.
            .compilation_mode(CompilationMode::Eager)
            // It would run before there is anything to resume.
            .allow_start_fn(false)
            .ignore_custom_sections(true)
            .wasm_multi_memory(false)
            // A branch of two bytes with a thousand results becomes thousands of bytes of compiled code: a module of
            // 200 KiB took 1.5 GiB. Compilers for C and Rust do not use multiple results.
            .wasm_multi_value(false)
            .set_max_recursion_depth(DEPTH)
            .set_max_stack_height(STACK)
            .set_max_cached_stacks(1);
        Interpreter { config }
    }

    /// Prepares a module. It gets an engine of its own, so that its code is freed with it.
    fn prepare(&self, spec: &Spec, host: Arc<dyn Host>, inbox: Arc<Inbox>) -> Result<Job, String> {
        let (has, may) = (spec.code.len(), spec.limits.code);
        if has > may {
            return Err(format!(
                "the module has {has} bytes, but only {may} are allowed"
            ));
        }
        let engine = wasmi::Engine::new(&self.config);
        let Some(sizes) = Sizes::of(&spec.code) else {
            Module::validate(&engine, &spec.code).map_err(|e| short_text(&e))?;
            return Err("the functions of the module cannot be parsed".into());
        };
        if let Some(fault) = sizes.fault(spec.limits.table_elements) {
            return Err(fault);
        }
        let module = Module::new(&engine, &spec.code).map_err(|e| short_text(&e))?;
        let linker = wasi::linker(&module)?;
        let mut store = Store::new(&engine, State::new(spec, host, inbox)?);
        store.limiter(|state| &mut state.room);
        let instance =
            linker
                .instantiate_and_start(&mut store, &module)
                .map_err(|e| match store.data().room.over() {
                    Some(limit) => over(limit),
                    None => short_text(&e),
                })?;
        let start = instance
            .get_typed_func(&store, "_start")
            .map_err(|_| "the module has no function `_start`".to_owned())?;
        store.data_mut().memory = instance.get_memory(&store, "memory");
        let mut job = Job { store, start };
        job.note();
        Ok(job)
    }
}

/// An error as text of limited length.
fn short_text(error: &Error) -> String {
    error.to_string().chars().take(WORDS).collect()
}

fn over(limit: &str) -> String {
    format!("over the limit of {limit}")
}

/// A module that is ready to run, or runs.
struct Job {
    store: Store<State>,
    start: TypedFunc<(), ()>,
}

impl Job {
    /// Records the resources used so far.
    fn note(&mut self) {
        if let Some(memory) = self.store.data().memory {
            let bytes = memory.data_size(&self.store) as u64;
            self.store.data().inbox.set_memory(bytes);
        }
    }

    /// Runs to the end, in slices of this much fuel.
    fn run(&mut self, slice: u64) -> End {
        self.store.data_mut().resume();
        let mut outcome = self
            .store
            .set_fuel(slice)
            .and_then(|()| self.start.call_resumable(&mut self.store, ()));
        loop {
            self.store.data_mut().pause();
            self.note();
            let call = match outcome {
                Ok(TypedResumableCall::OutOfFuel(call)) => call,
                Ok(TypedResumableCall::Finished(())) => {
                    return self.end(ExitStatus::Exited, Some(0), String::new());
                }
                Ok(TypedResumableCall::HostTrap(call)) => return self.failed(call.host_error()),
                Err(error) => return self.failed(&error),
            };
            if !self.store.data_mut().between_slices() {
                return self.end(ExitStatus::Deleted, None, String::new());
            }
            self.store.data_mut().resume();
            outcome = self
                .store
                .set_fuel(slice.max(call.required_fuel()))
                .and_then(|()| call.resume(&mut self.store));
        }
    }

    fn failed(&self, error: &Error) -> End {
        let over_limit = self.store.data().room.over();
        if let Some(code) = error.i32_exit_status() {
            self.end(ExitStatus::Exited, Some(code), String::new())
        } else if error.downcast_ref::<Stopped>().is_some() {
            self.end(ExitStatus::Deleted, None, String::new())
        } else if let Some(limit) = over_limit {
            self.end(ExitStatus::Killed, None, over(limit))
        } else {
            self.end(ExitStatus::Crashed, None, short_text(error))
        }
    }

    /// The end; whatever happened, a module that was told to end counts as deleted.
    fn end(&self, mut status: ExitStatus, code: Option<i32>, mut reason: String) -> End {
        if self.store.data().inbox.stopped() {
            (status, reason) = (ExitStatus::Deleted, String::new());
        }
        End {
            status,
            code,
            reason,
        }
    }
}

/// Runs a module on this thread with at most this much fuel. It is told to end from the start, so that it never waits.
/// For tests with hostile modules; [`Host::ended`] is not called.
///
/// # Errors
/// It cannot be started; the reason is readable text.
pub fn attempt(spec: &Spec, host: Arc<dyn Host>, fuel: u64) -> Result<End, String> {
    let inbox = Arc::new(Inbox::new(&spec.limits));
    inbox.stop();
    let mut job = Interpreter::new().prepare(spec, host, inbox)?;
    let end = job.run(fuel);
    job.store.data_mut().finish();
    Ok(end)
}

/// The thread of a module, from its start to its end, which is reported whatever happens.
fn work(mut job: Job, host: &dyn Host, slice: u64) {
    if let Err(e) = add_nice(NICE) {
        log::debug!("cannot lower the priority of a module: {e}");
    }
    let uuid = job.store.data().uuid.clone();
    let end = catch_unwind(AssertUnwindSafe(|| job.run(slice)));
    let finished = catch_unwind(AssertUnwindSafe(move || job.store.data_mut().finish()));
    let end = match (end, finished) {
        (Ok(end), Ok(())) => end,
        _ => End {
            status: ExitStatus::Crashed,
            code: None,
            reason: "the interpreter failed".into(),
        },
    };
    host.ended(&uuid, end);
}

impl Engine for Interpreter {
    fn apis(&self) -> &[&'static str] {
        &APIS
    }

    fn start(&self, spec: Spec, host: Arc<dyn Host>) -> Result<Box<dyn Running>, String> {
        let inbox = Arc::new(Inbox::new(&spec.limits));
        let prepare = || self.prepare(&spec, host.clone(), inbox.clone());
        let job = catch_unwind(AssertUnwindSafe(prepare))
            .unwrap_or_else(|_| Err("the interpreter failed".into()))
            // wasmi dumps bytes, one line each.
            .map_err(|why| why.split_whitespace().collect::<Vec<_>>().join(" "))?;
        let name = format!("wasm-{}", spec.uuid);
        std::thread::Builder::new()
            .name(name)
            .stack_size(THREAD_STACK)
            .spawn(move || work(job, &*host, SLICE))
            .map_err(|e| format!("cannot create a thread for the module: {e}"))?;
        Ok(Box::new(Handle(inbox)))
    }
}

/// The handle of a running module.
struct Handle(Arc<Inbox>);

impl Running for Handle {
    fn stop(&self) {
        self.0.stop();
    }

    fn deliver(&self, topic: &str, payload: &Bytes) {
        self.0.deliver(topic, payload);
    }

    fn input(&self, data: &Bytes) {
        self.0.input(data);
    }

    fn wait_for_room(&self, bytes: usize) {
        self.0.wait_for_room(bytes);
    }

    fn figures(&self) -> Figures {
        self.0.figures()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.stop();
    }
}
