//! ClearFuncs: what may be asked without a session key
//! (`salt/master.py ClearFuncs.expose_methods`, reference `salt-protocol.md` 7).

/// A clear command. Who may call stands with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Sign-in; anyone.
    Auth,
    /// Echo; anyone.
    Ping,
    /// A job; whom [`crate::access::Access`] lets.
    Publish,
    /// A token; who proves himself to a system of external authentication.
    MkToken,
    /// What a token stands for; who has it.
    GetToken,
    /// A function of the master in a process of its own; whoever [`crate::access::Access`] lets.
    Runner,
    /// A function of the master, answered with its result; whoever [`crate::access::Access`] lets.
    Wheel,
}

impl Command {
    /// The command of a name from the wire.
    pub fn parse(cmd: &str) -> Option<Command> {
        Some(match cmd {
            "_auth" => Command::Auth,
            "ping" => Command::Ping,
            "publish" => Command::Publish,
            "mk_token" => Command::MkToken,
            "get_token" => Command::GetToken,
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
            Command::MkToken => "mk_token",
            Command::GetToken => "get_token",
            Command::Runner => "runner",
            Command::Wheel => "wheel",
        }
    }
}
