//! ClearFuncs: what may be asked without a session key
//! (`salt/master.py ClearFuncs.expose_methods`, reference `salt-protocol.md` 7).

/// A clear command. Who may call stands with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Sign-in; anyone.
    Auth,
    /// Echo; anyone.
    Ping,
    /// A job; a local user who proves it by the key file.
    Publish,
    /// A function of the master in a process of its own; whoever [`super::caller`] lets.
    Runner,
    /// A function of the master, answered with its result; whoever [`super::caller`] lets.
    Wheel,
}

impl Command {
    /// The command of a name from the wire.
    pub fn parse(cmd: &str) -> Option<Command> {
        Some(match cmd {
            "_auth" => Command::Auth,
            "ping" => Command::Ping,
            "publish" => Command::Publish,
            "runner" => Command::Runner,
            "wheel" => Command::Wheel,
            _ => return None,
        })
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Command::Auth => "_auth",
            Command::Ping => "ping",
            Command::Publish => "publish",
            Command::Runner => "runner",
            Command::Wheel => "wheel",
        }
    }
}
