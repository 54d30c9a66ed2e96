//! `halite-key`: manages the keys of minions, as `salt-key` does (reference `salt-local.md` 6).

mod options;
mod remote;
mod show;

use super::common::fail;
use halite_client::keys::{
    KeyChanges, KeyPairError, Keys, Selection, SignatureOptions, generate_pair, make_signature,
};
use halite_client::local::calling_user;
use halite_config::{MasterConfig, load_master};
use halite_master::chown_logs;
use halite_store::audit::{AuditLog, Decision};
use halite_store::keys::KeyState;
use halite_sys::exit::EXIT_NO_USER;
use halite_sys::process::{drop_privileges, user_name};
use halite_wire::Value;
pub(super) use options::command;
use options::{Action, KeyOptions};
use remote::KeyBackend;
use show::KeyScreen;
use std::io::{self, BufRead};
use std::path::Path;

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options = match options::read() {
        Ok(options) => options,
        Err(status) => return status,
    };
    let config = match load_master(&options.common.config_dir) {
        Ok(config) => config,
        Err(e) => return fail(e, 1),
    };
    if !options.auth.is_enabled()
        && let Err((why, status)) = become_user(&options, &config)
    {
        return fail(why, status);
    }
    let mut log = config.command_log_options();
    if !options.auth.is_enabled() && !config.key_logfile.is_empty() {
        // The log file belongs to the master's account.
        log.path = Some(config.key_logfile.as_str().into());
    }
    options.common.start_log(log);
    for warning in &config.warnings {
        log::debug!("{warning}");
    }
    let mut screen = match KeyScreen::new(&options, &config) {
        Ok(screen) => screen,
        Err(why) => return fail(why, super::common::EXIT_USAGE),
    };
    let keys = if options.auth.is_enabled() {
        match options.auth.client(config.clone()) {
            Ok(client) => KeyBackend::Remote(Box::new(client)),
            Err(why) => return fail(why, 1),
        }
    } else {
        KeyBackend::Local(Box::new(Keys::new(&config)))
    };
    let done = KeyCommand {
        options: &options,
        config: &config,
        keys,
        screen: &mut screen,
    }
    .run();
    let shown = screen.finish();
    match done.and_then(|status| shown.map(|()| status).map_err(KeyCommandError::from)) {
        Ok(status) => status,
        // The reader has seen enough.
        Err(KeyCommandError::Io(e)) if e.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => fail(failure.text(), 1),
    }
}

/// The master's account owns its files: root switches to it, others must be it already.
fn become_user(options: &KeyOptions, config: &MasterConfig) -> Result<(), (String, i32)> {
    let root = nix::unistd::geteuid().is_root();
    let user = match &options.user {
        Some(user) => user,
        None if root => &config.user,
        // Access to the files will show.
        None => return Ok(()),
    };
    if *user == user_name() {
        return Ok(());
    }
    if root && *user == config.user {
        // Before the master's first start they still belong to root.
        chown_logs(config).map_err(|e| (format!("the master's log files: {e}"), 1))?;
    }
    drop_privileges(user).map_err(|e| {
        let status = if e.kind() == io::ErrorKind::NotFound {
            EXIT_NO_USER
        } else {
            1
        };
        (e.to_string(), status)
    })
}

enum KeyCommandError {
    Io(io::Error),
    Pair(KeyPairError),
}

impl KeyCommandError {
    fn text(&self) -> String {
        match self {
            KeyCommandError::Io(e) => e.to_string(),
            KeyCommandError::Pair(e) => e.to_string(),
        }
    }
}

impl From<io::Error> for KeyCommandError {
    fn from(e: io::Error) -> KeyCommandError {
        KeyCommandError::Io(e)
    }
}

struct KeyCommand<'a> {
    options: &'a KeyOptions,
    config: &'a MasterConfig,
    keys: KeyBackend<'a>,
    screen: &'a mut KeyScreen,
}

/// The three changes, and their names.
#[derive(Clone, Copy, PartialEq)]
enum KeyChange {
    Accept,
    Reject,
    Delete,
}

impl KeyChange {
    fn verb(self) -> &'static str {
        match self {
            KeyChange::Accept => "accept",
            KeyChange::Reject => "reject",
            KeyChange::Delete => "delete",
        }
    }

    fn past(self) -> &'static str {
        match self {
            KeyChange::Accept => "accepted",
            KeyChange::Reject => "rejected",
            KeyChange::Delete => "deleted",
        }
    }
}

impl KeyCommand<'_> {
    fn run(&mut self) -> Result<i32, KeyCommandError> {
        match self.options.action() {
            Action::GenKeys(name) => self.gen_keys(name),
            Action::GenSignature => self.gen_signature(),
            Action::List(word) => self.list(word),
            Action::Print(globs) => {
                let texts = self.keys.print(globs)?;
                self.screen.texts(&texts)?;
                Ok(0)
            }
            Action::Finger(globs) => {
                let fingers = self.keys.fingers(globs, self.options.finger_form.into())?;
                self.screen.texts(&fingers)?;
                Ok(0)
            }
            Action::Accept(globs) => self.change(KeyChange::Accept, globs),
            Action::Reject(globs) => self.change(KeyChange::Reject, globs),
            Action::Delete(globs) => self.change(KeyChange::Delete, globs),
        }
    }

    fn gen_keys(&mut self, name: &str) -> Result<i32, KeyCommandError> {
        let dir = &self.options.gen_keys_dir;
        let kind = self.options.key_type;
        let finger = generate_pair(self.config, dir, name, kind, self.keysize())
            .map_err(KeyCommandError::Pair)?;
        self.screen.result(finger.into())?;
        Ok(0)
    }

    fn gen_signature(&mut self) -> Result<i32, KeyCommandError> {
        let options = SignatureOptions {
            private: self.options.private.clone(),
            public: self.options.public.clone(),
            directory: self.options.signature_path.clone(),
            create: self.options.auto_create,
            bits: self.keysize(),
        };
        match make_signature(self.config, &options) {
            Ok(made) => self.screen.result(made.into())?,
            Err(KeyPairError::Missing(text)) => self.screen.result(text.into())?,
            Err(e) => return Err(KeyCommandError::Pair(e)),
        }
        Ok(0)
    }

    fn keysize(&self) -> u32 {
        self.options
            .keysize
            .unwrap_or(self.config.keysize.max(options::MIN_KEYSIZE))
    }

    fn list(&mut self, word: &str) -> Result<i32, KeyCommandError> {
        let selection = match options::state_of_word(word) {
            Some(state) => vec![(state, self.keys.list(state)?)],
            None => self.keys.list_all()?,
        };
        self.screen.ids(&selection)?;
        Ok(0)
    }

    fn change(&mut self, change: KeyChange, globs: &str) -> Result<i32, KeyCommandError> {
        let scope = Scope::of(change, self.options);
        let selection = scope.filter(self.keys.select(globs)?);
        if selection.is_empty() {
            let states = scope.state_names();
            self.screen.line(&format!(
                "The key glob '{globs}' does not match any {states} keys."
            ))?;
            return Ok(0);
        }
        self.screen.line(&format!(
            "The following keys are going to be {}:",
            change.past()
        ))?;
        self.screen.ids(&selection)?;
        if !self.options.yes && !self.confirm(change)? {
            return Ok(0);
        }
        let changed = self.keys.change(change.verb(), &selection);
        self.audit(change, &selection, changed.as_ref().err());
        let changed = changed?;
        self.print_changes(change, &changed)?;
        if change != KeyChange::Accept {
            self.clean_up(&selection, &changed)?;
        }
        Ok(if changed.failed.is_empty() { 0 } else { 1 })
    }

    /// Writes to the audit log; through the master, the master itself writes it.
    fn audit(&self, change: KeyChange, selection: &Selection, error: Option<&io::Error>) {
        if matches!(self.keys, KeyBackend::Remote(_)) {
            return;
        }
        let ids = selection.iter().flat_map(|(_, ids)| ids);
        let ids: Vec<Value> = ids.map(Value::from).collect();
        let why = error.map(io::Error::to_string).unwrap_or_default();
        AuditLog::new(Path::new(&self.config.audit_log)).write(&Decision {
            what: "key",
            user: &calling_user(),
            method: "account",
            target: Some(&ids.into()),
            function: Some(&format!("key.{}", change.verb()).into()),
            allowed: error.is_none(),
            reason: &why,
            ..Decision::default()
        });
    }

    /// Asks at the terminal: an empty answer means yes, or no for a deletion.
    fn confirm(&mut self, change: KeyChange) -> Result<bool, KeyCommandError> {
        let (question, default) = match change {
            KeyChange::Delete => ("Proceed? [N/y] ", false),
            KeyChange::Accept | KeyChange::Reject => ("Proceed? [n/Y] ", true),
        };
        self.screen.ask(question)?;
        let mut answer = Vec::new();
        if io::stdin().lock().read_until(b'\n', &mut answer)? == 0 {
            eprintln!();
            let why = "EOF when reading a line: there was no answer, nothing was changed; --yes answers yes";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why).into());
        }
        Ok(match answer.first() {
            None | Some(b'\n') => default,
            Some(first) => first.eq_ignore_ascii_case(&b'y'),
        })
    }

    fn print_changes(&mut self, change: KeyChange, changed: &KeyChanges) -> io::Result<()> {
        for (id, why) in &changed.invalid {
            eprintln!("Unable to accept invalid key for {id}.");
            log::info!("the key of {id}: {why}");
        }
        for (id, e) in &changed.failed {
            eprintln!("The key of {id} could not be {}: {e}", change.past());
        }
        for id in &changed.done {
            self.screen
                .line(&format!("Key for minion {id} {}.", change.past()))?;
        }
        Ok(())
    }

    fn clean_up(&mut self, selection: &Selection, changed: &KeyChanges) -> io::Result<()> {
        // With a remote backend the master does so itself.
        let KeyBackend::Local(keys) = &mut self.keys else {
            return Ok(());
        };
        let accepted = selection
            .iter()
            .find(|(state, _)| *state == KeyState::Accepted);
        let preserved = match accepted {
            Some((_, ids)) if self.options.preserve_minions == Some(true) => ids.as_slice(),
            _ => &[],
        };
        keys.forget_vanished(changed, preserved)?;
        if self
            .options
            .rotate_aes_key
            .unwrap_or(self.config.rotate_aes_key)
        {
            keys.request_rotation()?;
        }
        Ok(())
    }
}

/// The states that a change applies to (`salt/key.py KeyCLI._update_opts`, `_filter_ret`).
struct Scope {
    change: KeyChange,
    accepted: bool,
    rejected: bool,
    denied: bool,
}

impl Scope {
    fn of(change: KeyChange, options: &KeyOptions) -> Scope {
        let accepted =
            options.include_accepted || (options.include_all && change == KeyChange::Reject);
        let rejected =
            options.include_rejected || (options.include_all && change == KeyChange::Accept);
        Scope {
            change,
            accepted: accepted && change != KeyChange::Accept,
            rejected: rejected && change != KeyChange::Reject,
            denied: options.include_denied,
        }
    }

    /// Deletion applies to all states; the order is that in which ids are listed.
    fn filter(&self, mut selection: Selection) -> Selection {
        if self.change == KeyChange::Delete {
            return selection;
        }
        let order = |state: KeyState| match state {
            KeyState::Pending => Some(0),
            KeyState::Accepted => self.accepted.then_some(1),
            KeyState::Rejected => self.rejected.then_some(2),
            KeyState::Denied => self.denied.then_some(3),
        };
        selection.retain(|(state, _)| order(*state).is_some());
        selection.sort_by_key(|(state, _)| order(*state));
        selection
    }

    /// `unaccepted, accepted or denied`.
    fn state_names(&self) -> String {
        let mut words = vec!["unaccepted"];
        words.extend(self.accepted.then_some("accepted"));
        words.extend(self.rejected.then_some("rejected"));
        words.extend(self.denied.then_some("denied"));
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }
}
