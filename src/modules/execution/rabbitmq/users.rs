//! Users and their passwords.

use super::control::{ctl, ctl_with_secret, done, plain};
use crate::execution::declare::Result;
use crate::execution::{Call, python};
use halite_wire::{Value, map};

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

/// `rabbitmq.add_user`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn add_user(call: &mut Call<'_>) -> Result {
    let name = name(call);
    let password = call.text("password");
    let random = || {
        format!(
            "{:016x}{:016x}",
            rand::random::<u64>(),
            rand::random::<u64>()
        )
    };
    let secret = password.clone().unwrap_or_else(random);
    let ran = ctl_with_secret(call, &["add_user", &name], &secret)?;
    if password.is_none() {
        // A user needs one at first.
        let kwargs = map! {"runas" => call.arg("runas").clone()};
        if let Err(fault) = call.salt(
            "rabbitmq.clear_password",
            vec![name.as_str().into()],
            kwargs.clone(),
        ) {
            call.salt("rabbitmq.delete_user", vec![name.into()], kwargs)?;
            return Err(fault);
        }
    }
    done(ran, "Added")
}

/// `rabbitmq.change_password`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn change_password(call: &mut Call<'_>) -> Result {
    let (name, password) = (name(call), python::str(call.arg("password")));
    let ran = ctl_with_secret(call, &["change_password", &name], &password)?;
    done(ran, "Password Changed")
}

/// The three numbers of a server's version; zeros if it does not tell.
fn version(status: &str) -> [u32; 3] {
    let old = status
        .split_once("{rabbit,\"RabbitMQ\",\"")
        .and_then(|(_, rest)| rest.split_once("\"}"))
        .map(|(version, _)| version);
    let new = || {
        let (_, rest) = status.split_once("RabbitMQ version:")?;
        rest.trim_start().lines().next()
    };
    let found = old.or_else(new).unwrap_or_default().trim();
    let found = found.split('-').next().unwrap_or_default();
    let numbers: Option<Vec<u32>> = found.split('.').map(|n| n.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some([a, b, c, ..]) => [*a, *b, *c],
        _ => [0; 3],
    }
}

/// A text in Erlang's quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// `rabbitmq.check_password`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn check_password(call: &mut Call<'_>) -> Result {
    let (name, password) = (name(call), python::str(call.arg("password")));
    let status = ctl(call, ["status"])?;
    if version(&status.stdout) >= [3, 5, 7] {
        let ran = ctl_with_secret(call, &["authenticate_user", &name], &password)?;
        return Ok((ran.ok() && ran.stderr.is_empty()).into());
    }
    let code = format!(
        "rabbit_auth_backend_internal:check_user_login(<<\"{}\">>, [{{password, <<\"{}\">>}}]).",
        quoted(&name),
        quoted(&password)
    );
    let ran = ctl(call, ["eval", &code])?;
    let said = done(ran, "password-check")?;
    let said = said.as_map().and_then(|m| m.str("password-check"));
    Ok((!said.unwrap_or_default().contains("invalid credentials")).into())
}

/// `rabbitmq.set_user_tags`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn set_user_tags(call: &mut Call<'_>) -> Result {
    let Value::Array(tags) = call.arg("tags").clone() else {
        return plain(call, &["set_user_tags"], &["name", "tags"], "Tag(s) set");
    };
    let mut words = vec!["set_user_tags".to_owned(), name(call)];
    words.extend(tags.iter().map(python::str));
    done(ctl(call, words)?, "Tag(s) set")
}

#[cfg(test)]
mod tests {
    use super::{quoted, version};

    #[test]
    fn versions() {
        assert_eq!(
            version("OS: Linux\nRabbitMQ version: 3.10.8\nNode"),
            [3, 10, 8]
        );
        assert_eq!(version("[{rabbit,\"RabbitMQ\",\"3.5.6-1\"},"), [3, 5, 6]);
        assert_eq!(version("Error: no"), [0, 0, 0]);
        assert_eq!(quoted(r#"a\"b"#), r#"a\\\"b"#);
    }
}
