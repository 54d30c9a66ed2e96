//! WASI preview 1, as far as programs in C and Rust need it (reference, section 10). There is no file system behind
//! it: a module sees its standard streams and its channels, and nothing of the host.

mod environ;
mod errno;
mod files;
mod guest;
mod io;
mod paths;
mod poll;
mod state;

pub(super) use errno::Stopped;
pub(super) use state::State;

use errno::{Errno, Fault};
use guest::Guest;
use wasmi::{Caller, Error, ExternType, Linker, Module, Val, ValType};

/// The module that programs import from.
const PREVIEW_1: &str = "wasi_snapshot_preview1";

/// Functions of preview 1 that return "no such function"; these and those of [`add_functions`] are all functions of
/// preview 1.
const ABSENT: [&str; 25] = [
    "fd_advise",
    "fd_allocate",
    "fd_datasync",
    "fd_fdstat_set_rights",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "fd_pread",
    "fd_pwrite",
    "fd_readdir",
    "fd_renumber",
    "fd_sync",
    "fd_tell",
    "path_create_directory",
    "path_filestat_set_times",
    "path_link",
    "path_readlink",
    "path_remove_directory",
    "path_rename",
    "path_symlink",
    "path_unlink_file",
    "proc_raise",
    "sock_accept",
    "sock_recv",
    "sock_send",
    "sock_shutdown",
];

/// Runs a WASI function for a module: gives it memory and state, charges its cost to the fuel, and turns its result
/// into an error number, or ends the module.
fn call(
    mut caller: Caller<'_, State>,
    function: impl FnOnce(&mut Guest, &mut State) -> Result<(), Fault>,
) -> Result<u32, Error> {
    let memory = caller.data().memory;
    let (data, state): (&mut [u8], _) = match memory {
        Some(memory) => memory.data_and_store_mut(&mut caller),
        None => (&mut [], caller.data_mut()),
    };
    let mut guest = Guest::new(data);
    let outcome = function(&mut guest, state);
    let cost = guest.cost();
    if cost > 0 {
        let left = caller.get_fuel()?.saturating_sub(cost);
        caller.set_fuel(left)?;
    }
    match outcome {
        Ok(()) => Ok(0),
        Err(Fault::Errno(errno)) => Ok(u32::from(errno as u16)),
        Err(Fault::Stopped) => Err(Error::host(Stopped)),
    }
}

/// Adds functions to a linker: name, function, and its arguments after memory and state.
macro_rules! add {
    ($linker:expr; $($name:literal $function:path, $($arg:ident $kind:ty),*;)*) => {
        $($linker.func_wrap(PREVIEW_1, $name, |caller: Caller<'_, State>, $($arg: $kind),*| {
            call(caller, |guest, state| $function(guest, state, $($arg),*))
        })?;)*
    };
}

fn add_functions(linker: &mut Linker<State>) -> Result<(), Error> {
    add! { linker;
        "args_get" environ::args_get, list u32, texts u32;
        "args_sizes_get" environ::args_sizes_get, count u32, size u32;
        "environ_get" environ::environ_get, list u32, texts u32;
        "environ_sizes_get" environ::environ_sizes_get, count u32, size u32;
        "clock_res_get" environ::clock_res_get, clock u32, out u32;
        "clock_time_get" environ::clock_time_get, clock u32, precision u64, out u32;
        "random_get" environ::random_get, at u32, len u32;
        "sched_yield" environ::sched_yield,;
        "fd_close" io::fd_close, fd u32;
        "fd_fdstat_get" io::fd_fdstat_get, fd u32, out u32;
        "fd_fdstat_set_flags" io::fd_fdstat_set_flags, fd u32, flags u32;
        "fd_filestat_get" io::fd_filestat_get, fd u32, out u32;
        "fd_prestat_get" paths::fd_prestat_get, fd u32, out u32;
        "fd_prestat_dir_name" paths::fd_prestat_dir_name, fd u32, at u32, len u32;
        "fd_read" io::fd_read, fd u32, list u32, count u32, out u32;
        "fd_seek" io::fd_seek, fd u32, offset u64, whence u32, out u32;
        "fd_write" io::fd_write, fd u32, list u32, count u32, out u32;
        "path_open" paths::path_open, folder u32, follow u32, at u32, len u32, how u32, rights u64, inheriting u64, flags u32, out u32;
        "path_filestat_get" paths::path_filestat_get, folder u32, follow u32, at u32, len u32, out u32;
        "poll_oneoff" poll::poll_oneoff, subscriptions u32, events u32, count u32, out u32;
    }
    linker.func_wrap(PREVIEW_1, "proc_exit", environ::proc_exit)?;
    Ok(())
}

/// Whether a function only returns that it is absent.
fn is_absent(module: &str, name: &str) -> bool {
    module == PREVIEW_1 && ABSENT.contains(&name)
}

/// The functions that a module may import. Functions of preview 1 that are absent here return an error.
///
/// # Errors
/// The module imports something else; the reason is readable text.
pub(super) fn linker(module: &Module) -> Result<Linker<State>, String> {
    let engine = module.engine();
    let mut linker = Linker::new(engine);
    add_functions(&mut linker).map_err(|e| e.to_string())?;
    let mut added = Vec::new();
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        match import.ty() {
            ExternType::Func(ty)
                if is_absent(from, name)
                    && matches!(ty.results(), [ValType::I32])
                    && !added.contains(&name) =>
            {
                let absent = Val::I32(i32::from(Errno::NoSystem as u16));
                let answer = move |_: Caller<'_, State>, _: &[Val], results: &mut [Val]| {
                    results.fill(absent.clone());
                    Ok(())
                };
                let outcome = linker.func_new(PREVIEW_1, name, ty.clone(), answer);
                outcome.map_err(|e| e.to_string())?;
                added.push(name);
            }
            ExternType::Func(_) if from == PREVIEW_1 => {}
            _ => {
                let name: String = name.chars().take(64).collect();
                let from: String = from.chars().take(64).collect();
                return Err(format!(
                    "imports {name:?} from {from:?}, which is not available here"
                ));
            }
        }
    }
    Ok(linker)
}
