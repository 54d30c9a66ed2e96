//! What must be there before roles start: directories, keys, owners, the account.

use super::super::roles::JOIN;
use super::super::{access, create_own_keys};
use halite_config::{MasterConfig, SaltSeries};
use halite_crypto::KeyString;
use halite_store::Stores;
use halite_sys::daemon::{PidFile, make_dir};
use halite_sys::exit::{EXIT_NO_USER, ExitError};
use halite_sys::fork;
use halite_sys::ownership::{chown, chown_tree};
use halite_sys::process::{drop_privileges, raise_open_files, user_name};
use halite_sys::shared::SharedSecret;
use std::path::Path;

/// Runs work that loads keys into memory in a child: other children must not find them in the memory of this
/// process.
fn in_child(work: impl FnOnce() -> Result<(), ExitError>) -> Result<(), ExitError> {
    fork::in_child(|| work().map_err(|e| e.message))?.map_err(|why| ExitError::new(1, why))
}

/// Creates the key of publications and missing key files, and checks that the master's own key is usable.
pub(super) fn make_keys(
    config: &MasterConfig,
    starter: &str,
    shared: &SharedSecret,
) -> Result<(), ExitError> {
    in_child(|| {
        access::local::create_key_files(config, starter)?;
        create_own_keys(config)?;
        shared.store_key(KeyString::generate().as_str())?;
        Ok(())
    })
}

/// A master of a cluster that has no key takes over that of the others, if there are any; `run` runs a role.
pub(super) fn take_over_key(
    config: &MasterConfig,
    run: &dyn Fn(&str) -> i32,
) -> Result<(), ExitError> {
    if config.cluster().is_none() || config.master_key().exists() {
        return Ok(());
    }
    in_child(|| match run(JOIN) {
        0 => Ok(()),
        status => Err(ExitError::new(
            status,
            "no key was taken over from the masters of the cluster: the log says why",
        )),
    })
}

/// Creates the key files of other accounts.
fn make_keys_of_others(config: &MasterConfig) -> Result<(), ExitError> {
    if access::local::other_accounts(config).is_empty() {
        return Ok(());
    }
    in_child(|| Ok(access::local::create_keys_of_others(config)?))
}

/// Creates the directories that only root may be able to create.
pub(super) fn make_places(config: &MasterConfig) -> Result<(), ExitError> {
    for (what, dir, mode) in [
        ("cachedir", config.cachedir.as_path(), 0o755),
        ("pki_dir", &config.pki_dir, 0o700),
        ("sock_dir", &config.sock_dir, 0o755),
    ]
    .into_iter()
    .chain(
        config
            .cluster_dir_of_key()
            .map(|dir| ("cluster_pki_dir", dir, 0o700)),
    ) {
        make_dir(dir, mode).map_err(|e| ExitError::io(what, dir, &e))?;
    }
    Ok(())
}

/// Creates what is in these directories, as the master's account, and raises the limit of open files.
pub(super) fn prepare(config: &MasterConfig) -> Result<(), ExitError> {
    // Stock runners keep their state here (`salt/client/mixins.py`), and need the directory.
    let proc = config.runner_jobs();
    make_dir(&proc, 0o755).map_err(|e| ExitError::io("cachedir", &proc, &e))?;
    if config.salt_series != SaltSeries::S3008 {
        // Stock's `queue.*`, which 3008 no longer has, needs its directory as well.
        let queues = &config.sqlite_queue_dir;
        make_dir(queues, 0o755).map_err(|e| ExitError::io("sqlite_queue_dir", queues, &e))?;
    }
    let stores = Stores::open(config);
    stores
        .keys
        .prepare()
        .map_err(|e| ExitError::io("pki_dir", &config.pki_dir, &e))?;
    stores.sessions.prepare()?;
    match raise_open_files(config.max_open_files) {
        Ok(limit) if limit < config.max_open_files => log::warn!(
            "the system allows {limit} open files, max_open_files asks for {}; each minion takes two",
            config.max_open_files
        ),
        Ok(_) => {}
        Err(e) => log::warn!("the limit of open files could not be raised: {e}"),
    }
    Ok(())
}

/// Does what needs root, for a master that is then started as the account of the option `user`: creates directories
/// and key files, and hands them over to it. The calling account gets a key file too.
pub fn hand_over(config: &MasterConfig) -> Result<(), ExitError> {
    let starter = user_name();
    make_places(config)?;
    PidFile::reserve(&config.pidfile)
        .map_err(|e| ExitError::io("pid file", &config.pidfile, &e))?;
    change_owners(config)?;
    in_child(|| {
        drop_privileges(&config.user)?;
        Ok(access::local::create_key_files(config, &starter)?)
    })
}

/// Switches to the account of the option `user`, after changing the owner of the master's directories. The
/// ports are above 1024, so nothing needs root from here on.
pub(super) fn become_user(config: &MasterConfig) -> Result<(), ExitError> {
    change_owners(config)?;
    if user_name() == config.user {
        return Ok(());
    }
    drop_privileges(&config.user).map_err(|e| ExitError::new(EXIT_NO_USER, e.to_string()))
}

/// Gives the master's files to the account of the option `user`, and the users of `publisher_acl` their key files.
fn change_owners(config: &MasterConfig) -> Result<(), ExitError> {
    if user_name() != config.user && nix::unistd::geteuid().is_root() {
        let places = [
            config.pki_dir.as_path(),
            &config.cachedir,
            &config.sock_dir,
            &config.pidfile,
        ];
        let keys = access::local::names_of_others(config);
        let spared: Vec<&str> = keys.iter().map(String::as_str).chain(["jobs"]).collect();
        for dir in places.into_iter().chain(config.cluster_dir_of_key()) {
            // There may be many old jobs; access to their directory is enough to read them. Keys of others stay theirs.
            chown_tree(dir, &config.user, &spared).map_err(|e| {
                ExitError::new(
                    1,
                    format!(
                        "cannot change the owner of {} to {}: {e}",
                        dir.display(),
                        config.user
                    ),
                )
            })?;
        }
        chown_logs(config)?;
    }
    make_keys_of_others(config)
}

/// Changes the owner of the master's log files to the account of the option `user`, and of their directory
/// unless it is a shared one such as `/var/log`; other daemons' files there are left alone. For root.
pub fn chown_logs(config: &MasterConfig) -> std::io::Result<()> {
    let own = [&config.log_file, &config.audit_log, &config.key_logfile].map(Path::new);
    let is_ours = |dir: &&Path| dir.ends_with(config.flavour.name());
    let dirs = own.map(|log| log.parent().filter(is_ours));
    let paths = own.into_iter().chain(dirs.into_iter().flatten());
    for path in paths.filter(|path| path.exists()) {
        chown(path, &config.user)?;
    }
    Ok(())
}
