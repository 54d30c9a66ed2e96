//! Setup before the minion's main loop: directories, account, local bus, and the connection for publications.

use halite_channel::STACK;
use halite_config::MinionConfig;
use halite_ipc::Framing;
use halite_sys::daemon::{PidFile, make_dir};
use halite_sys::exit::{EXIT_NO_USER, ExitError};
use halite_sys::held_path::HeldDir;
use halite_sys::process::drop_privileges;
use halite_transport::bus::{BusHandle, BusOptions, BusServer, Tap};
use halite_wire::ids::MinionId;
use nix::unistd::User;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Bytes that may be queued for one listener of the local bus.
const BUS_BYTES: usize = 4 << 20;

/// Creates the directories, stores the id, and switches to the account to run as.
pub(super) fn prepare(config: &MinionConfig) -> Result<(), ExitError> {
    if let Err(e) = config.id.parse::<MinionId>() {
        return Err(ExitError::new(1, format!("the option `id`: {e}")));
    }
    make_places(config)?;
    if let Err(e) = config.store_id() {
        log::warn!(
            "cannot save the id {} in {}: {e}",
            config.id,
            config.id_file().display()
        );
    }
    if nix::unistd::geteuid().is_root() && config.user != "root" {
        let pid_file = |e| ExitError::io("pid file", &config.pidfile, &e);
        PidFile::reserve(&config.pidfile).map_err(pid_file)?;
        let log = Path::new(&config.log_file);
        for own in [config.pidfile.as_path(), log]
            .into_iter()
            .filter(|own| own.exists())
        {
            chown_dir(own, &config.user).map_err(|e| ExitError::io("owner of", own, &e))?;
        }
        // Its jobs open the log by name.
        if let Some(dir) = log.parent().filter(|dir| dir.is_dir()) {
            // The account may own the one above, and must not lead root elsewhere.
            let held = HeldDir::by_links_of_root(dir);
            let held = held.map_err(|e| ExitError::io("directory of the log", dir, &e))?;
            let mode = held.path().metadata()?.permissions().mode();
            if mode & 0o001 == 0 {
                std::fs::set_permissions(held.path(), PermissionsExt::from_mode(mode | 0o001))?;
            }
        }
    }
    become_user(config)
}

/// Creates the directories of the minion, for its account.
///
/// # Errors
/// They cannot be created.
pub fn make_places(config: &MinionConfig) -> Result<(), ExitError> {
    for (what, dir, mode) in [
        ("pki_dir", &config.pki_dir, 0o700),
        ("cachedir", &config.cachedir, 0o755),
        ("sock_dir", &config.sock_dir, 0o755),
    ] {
        make_dir(dir, mode).map_err(|e| ExitError::io(what, dir, &e))?;
        chown_dir(dir, &config.user).map_err(|e| ExitError::io(what, dir, &e))?;
    }
    Ok(())
}

/// Root takes on the account of the option `user`.
///
/// # Errors
/// There is no such account.
pub fn become_user(config: &MinionConfig) -> Result<(), ExitError> {
    match nix::unistd::geteuid().is_root() {
        false => Ok(()),
        true => {
            drop_privileges(&config.user).map_err(|e| ExitError::new(EXIT_NO_USER, e.to_string()))
        }
    }
}

/// Changes the owner of a directory to the account that the minion will run as.
pub fn chown_dir(dir: &std::path::Path, user: &str) -> std::io::Result<()> {
    if !nix::unistd::geteuid().is_root() || user == "root" {
        return Ok(());
    }
    // If there is no such account, switching to it fails with a better message.
    match User::from_name(user)? {
        Some(_) => halite_sys::ownership::chown(dir, user),
        None => Ok(()),
    }
}

/// The local event bus, in a thread of its own (reference `salt-local.md` 1.1, 2.5).
/// Many small values may go over `max_event_size`, as on a master's bus.
const LARGEST_EVENT: usize = 16 << 20;

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
        max_event_size: usize::try_from(config.max_event_size)
            .unwrap_or(usize::MAX)
            .max(LARGEST_EVENT),
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
