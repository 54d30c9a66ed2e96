//! Setup before the minion's main loop: directories, account, local bus, and the connection for publications.

use halite_channel::STACK;
use halite_config::MinionConfig;
use halite_ipc::Framing;
use halite_sys::daemon::make_dir;
use halite_sys::exit::ExitError;
use halite_transport::bus::{BusHandle, BusOptions, BusServer, Tap};
use halite_wire::ids::MinionId;

/// Bytes that may be queued for one listener of the local bus.
const BUS_BYTES: usize = 4 << 20;

/// Creates the directories, stores the id, and switches to the account to run as.
pub(super) fn prepare(config: &MinionConfig) -> Result<(), ExitError> {
    if let Err(e) = config.id.parse::<MinionId>() {
        return Err(ExitError::new(1, format!("the option `id`: {e}")));
    }
    for (what, dir, mode) in [
        ("pki_dir", &config.pki_dir, 0o700),
        ("cachedir", &config.cachedir, 0o755),
        ("sock_dir", &config.sock_dir, 0o755),
    ] {
        make_dir(dir, mode).map_err(|e| ExitError::io(what, dir, &e))?;
        chown_dir(dir, &config.user).map_err(|e| ExitError::io(what, dir, &e))?;
    }
    if let Err(e) = config.store_id() {
        log::warn!(
            "cannot save the id {} in {}: {e}",
            config.id,
            config.id_file().display()
        );
    }
    if nix::unistd::geteuid().is_root() {
        halite_sys::process::drop_privileges(&config.user)?;
    }
    Ok(())
}

/// Changes the owner of a directory to the account that the minion will run as.
pub fn chown_dir(dir: &std::path::Path, user: &str) -> std::io::Result<()> {
    if !nix::unistd::geteuid().is_root() || user == "root" {
        return Ok(());
    }
    // If there is no such account, switching to it fails with a better message.
    halite_sys::ownership::chown(dir, user)
}

/// The local event bus, in a thread of its own (reference `salt-local.md` 1.1, 2.5).
pub(super) fn serve_bus(config: &MinionConfig, tap: Tap) -> Result<BusHandle, ExitError> {
    let path = |kind: &str| {
        halite_modules::bus::socket(&config.sock_dir, &config.hash_type, &config.id, kind)
    };
    let options = BusOptions {
        framing: if config.bus_prefixed() {
            Framing::Prefixed
        } else {
            Framing::Bare
        },
        stamp: halite_modules::bus::stamp_style(&config.as_map()),
        queue_frames: config.event_queue_limit as usize,
        queue_bytes: BUS_BYTES,
        max_event_size: usize::try_from(config.max_event_size).unwrap_or(usize::MAX),
        pub_mode: 0o600,
        ..BusOptions::default()
    };
    let mut server = BusServer::bind(&path("pull"), &path("pub"), options)
        .map_err(|e| ExitError::new(1, format!("{e} (is this minion already running?)")))?;
    server.tap(tap);
    let handle = server.handle();
    std::thread::Builder::new()
        .name("event bus".into())
        .stack_size(STACK)
        .spawn(move || {
            if let Err(e) = server.run(None) {
                log::error!("the minion's event bus has failed: {e}");
            }
        })?;
    Ok(handle)
}
