//! Signs, encrypts and decrypts.

use super::super::{Call, CallError, python};
use super::run::{Gpg, Ran, content};
use super::wanted_passphrase;
use crate::execution::declare::Result;
use halite_wire::{Value, map};

/// The argument `text`, or the content of the file `filename`.
fn input(call: &Call<'_>) -> Result<Vec<u8>> {
    if call.flag("text") {
        Ok(call.text("text").unwrap_or_default().into_bytes())
    } else if call.flag("filename") {
        content(&call.text("filename").unwrap_or_default())
    } else {
        Err(CallError::Invocation(
            "filename or text must be passed.".to_owned(),
        ))
    }
}

pub fn sign(call: &mut Call<'_>) -> Result {
    let phrase = wanted_passphrase(call)?;
    let gpg = Gpg::new(call)?;
    let mut words = vec!["-sa".to_owned(), "--clearsign".to_owned()];
    if call.flag("keyid") {
        words.extend([
            "--default-key".to_owned(),
            call.text("keyid").unwrap_or_default(),
        ]);
    }
    let data = input(call)?;
    let ran = gpg.run_with(&words, Some(data), phrase.as_deref())?;
    // Only what comes from a file is written to one.
    if !call.flag("text") && call.flag("output") {
        let path = call.text("output").unwrap_or_default();
        std::fs::write(&path, &ran.data).map_err(|e| python::os_error(&e, &path))?;
    }
    Ok(ran.value())
}

/// `--output` with a file that may be there already.
fn output_words(call: &Call<'_>) -> Vec<String> {
    match call.text("output").filter(|path| !path.is_empty()) {
        None => Vec::new(),
        Some(path) => ["--yes", "--output", &path].map(str::to_owned).into(),
    }
}

pub fn encrypt(call: &mut Call<'_>) -> Result {
    let signs = call.flag("sign");
    let phrase = match signs {
        true => wanted_passphrase(call)?,
        false => None,
    };
    let gpg = Gpg::new(call)?;
    let data = input(call)?;
    let recipients = match call.arg("recipients") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        one if one.truthy() => vec![python::str(one)],
        _ => Vec::new(),
    };
    if recipients.is_empty() {
        return Err(CallError::raised(
            "ValueError",
            "No recipients or hidden recipients specified with asymmetric encryption",
        ));
    }
    let mut words = vec!["--encrypt".to_owned()];
    for recipient in recipients {
        words.extend(["--recipient".to_owned(), recipient]);
    }
    words.push("--armor".to_owned());
    words.extend(output_words(call));
    if signs {
        words.push("--sign".to_owned());
        if *call.arg("sign") != Value::Bool(true) {
            let key = call.text("sign").unwrap_or_default();
            words.extend(["--default-key".to_owned(), key]);
        }
    }
    if call.flag("always_trust") {
        words.extend(["--trust-model", "always"].map(str::to_owned));
    }
    let ran = gpg.run_with(&words, Some(data), phrase.as_deref())?;
    Ok(answer(call, ran, "Encrypted"))
}

pub fn decrypt(call: &mut Call<'_>) -> Result {
    let phrase = wanted_passphrase(call)?;
    let gpg = Gpg::new(call)?;
    let data = input(call)?;
    let mut words = vec!["--decrypt".to_owned()];
    if !call.flag("text") {
        words.extend(output_words(call));
    }
    let ran = gpg.run_with(&words, Some(data), phrase.as_deref())?;
    Ok(answer(call, ran, "Decrypted"))
}

fn answer(call: &Call<'_>, ran: Ran, what: &str) -> Value {
    let bare = call.flag("bare");
    let (good, status) = outcome(&ran);
    if !good {
        log::error!("{}", ran.said.trim_end());
        return match bare {
            true => false.into(),
            false => {
                let text = format!("{status}.\nPlease check the salt-minion log.");
                map! {"res" => false, "comment" => text}.into()
            }
        };
    }
    if bare {
        return ran.value();
    }
    let comment = match call.text("output").filter(|path| !path.is_empty()) {
        Some(path) => format!("{what} data has been written to {path}").into(),
        None => ran.value(),
    };
    map! {"res" => true, "comment" => comment}.into()
}

/// Whether all went well, and the last thing that happened.
fn outcome(ran: &Ran) -> (bool, String) {
    let mut good = false;
    let mut status = String::new();
    for (key, value) in ran.status() {
        let no_key = status == "no secret key";
        let next = match key {
            "DECRYPTION_OKAY" | "END_ENCRYPTION" => {
                good = true;
                let what = key.split(['_']).find(|part| part.ends_with("ION"));
                format!("{} ok", what.unwrap_or_default().to_lowercase())
            }
            "NODATA" if status != "decryption failed" => "no data was provided".to_owned(),
            "NEED_PASSPHRASE"
            | "BAD_PASSPHRASE"
            | "GOOD_PASSPHRASE"
            | "MISSING_PASSPHRASE"
            | "KEY_NOT_CREATED"
            | "NEED_PASSPHRASE_PIN" => key.replace('_', " ").to_lowercase(),
            "DECRYPTION_FAILED" if !no_key => "decryption failed".to_owned(),
            "BEGIN_DECRYPTION" if !no_key => "decryption incomplete".to_owned(),
            "NEED_PASSPHRASE_SYM" => "need symmetric passphrase".to_owned(),
            "BEGIN_ENCRYPTION" => "encryption incomplete".to_owned(),
            "INV_RECP" if status.is_empty() => "invalid recipient".to_owned(),
            "INV_RECP" => format!("invalid recipient: {status}"),
            "KEYEXPIRED" => "key expired".to_owned(),
            "SIG_CREATED" => "sig created".to_owned(),
            "SIGEXPIRED" => "sig expired".to_owned(),
            "NO_SECKEY" => "no secret key".to_owned(),
            "NO_PUBKEY" => "no public key".to_owned(),
            "GOODSIG" => "signature good".to_owned(),
            "VALIDSIG" => "signature valid".to_owned(),
            "BADSIG" => "signature bad".to_owned(),
            "ERRSIG" => "signature error".to_owned(),
            "EXPSIG" => "signature expired".to_owned(),
            "EXPKEYSIG" => "signing key has expired".to_owned(),
            "REVKEYSIG" => "signing key was revoked".to_owned(),
            "UNEXPECTED" => "unexpected data".to_owned(),
            "FAILURE" if status.is_empty() => failure(value),
            _ => continue,
        };
        status = next;
    }
    (good, status)
}

/// A failed operation and its number, whose upper bits say which part of GnuPG has failed.
fn failure(value: &str) -> String {
    let plain = format!("error - {value}");
    let Some((operation, code)) = value.rsplit_once(' ') else {
        return plain;
    };
    let Ok(code) = code.parse::<u64>() else {
        return plain;
    };
    let why = match (code & 0x8000 != 0, code & 0x7fff) {
        (true, 1) => "permission denied",
        (true, 35) => "file exists",
        (true, 81) => "file not found",
        (true, 97) => "not a directory",
        (false, 11) => "incorrect passphrase",
        _ => return plain,
    };
    format!("{operation}: {why}")
}
