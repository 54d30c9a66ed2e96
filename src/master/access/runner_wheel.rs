//! Runner and wheel calls (`salt/master.py ClearFuncs.runner`, `ClearFuncs.wheel`).

use super::rules::{Call, CallApi, Special};
use super::{Access, Caller, Rights, Unproven, names};
use halite_store::audit::Decision;
use halite_wire::{Map, Value};

impl Access {
    /// Authorizes a `runner` or `wheel` request; returns the caller. `call` has the arguments as the function will get
    /// them, `load` the credentials. `origin` is the address of the peer and the jid, which is for the audit log.
    ///
    /// # Errors
    /// The error reply to send.
    pub fn authorize(
        &mut self,
        form: CallApi,
        load: &Map,
        call: &Call,
        origin: (&str, &str),
    ) -> Result<Caller, Value> {
        let (peer, _) = origin;
        let caller = match self.authenticate(load, load, peer) {
            Ok(caller) => caller,
            Err(unproven) => {
                let (user, method) = (unproven.user.as_str(), unproven.method.word());
                log::warn!(
                    "a {} call of user {user:?} from {peer} was refused: {}",
                    form.name(),
                    unproven.why
                );
                self.record(form, load, (user, method), origin, Err(&unproven.why));
                return Err(unauthenticated(&unproven));
            }
        };
        // In stock Salt, any key file allows every runner and wheel function.
        let verdict = match &caller.rights {
            Rights::All => Special::Allowed,
            Rights::Listed(list) => list.special(form, call),
        };
        let who = (caller.user.as_str(), caller.proof.as_str());
        let refused = match verdict {
            Special::Allowed => {
                self.record(form, load, who, origin, Ok(()));
                return Ok(caller);
            }
            Special::Malformed => error(
                "SaltInvocationError",
                "A command invocation error occurred: Check syntax.",
            ),
            Special::Denied => error(
                caller.method.error_name(),
                &denied(caller.method.word(), &caller.user),
            ),
        };
        log::warn!(
            "user {:?} of {peer} may not call the {} function {:?}",
            caller.user,
            form.name(),
            names::shown(&call.fun)
        );
        self.record(form, load, who, origin, Err("no permission"));
        Err(refused)
    }

    fn record(
        &self,
        form: CallApi,
        load: &Map,
        (user, method): (&str, &str),
        (from, jid): (&str, &str),
        verdict: Result<(), &str>,
    ) {
        self.audit_decision(&Decision {
            what: form.name(),
            user,
            method,
            from,
            function: load.get("fun"),
            jid,
            allowed: verdict.is_ok(),
            reason: verdict.err().unwrap_or_default(),
            ..Decision::default()
        });
    }
}

fn unauthenticated(unproven: &Unproven) -> Value {
    let word = unproven.method.word();
    let message = match unproven.method {
        super::Method::Eauth => denied(word, &unproven.user),
        super::Method::Token => format!("Authentication failure of type \"{word}\" occurred."),
        super::Method::Key => format!("Authentication failure of type \"{word}\" occurred"),
    };
    error(unproven.method.error_name(), &message)
}

fn denied(word: &str, user: &str) -> String {
    format!("Authentication failure of type \"{word}\" occurred for user {user}.")
}

fn error(name: &str, message: &str) -> Value {
    Value::Map(
        halite_wire::map! {"error" => halite_wire::map! {"name" => name, "message" => message}},
    )
}
