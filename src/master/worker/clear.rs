//! ClearFuncs: what may be asked without a session key
//! (`salt/master.py ClearFuncs.expose_methods`, reference `salt-protocol.md` 7).

/// A clear command. Who may call stands with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Sign-in; anyone.
    Auth,
    /// Echo; anyone.
    Ping,
    /// A job; whom [`crate::master::access::Access`] lets.
    Publish,
    /// A token; who proves himself to a system of external authentication.
    MkToken,
    /// What a token stands for; who has it.
    GetToken,
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
        }
    }
}
