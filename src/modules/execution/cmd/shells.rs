//! Known shells, and writing to terminals.

use super::super::declare::Result;
use super::super::{Call, python};
use super::which;
use halite_sys::command::Helper;
use halite_wire::map;
use regex::RegexBuilder;
use std::io::Write;
use std::time::Duration;

/// Name, version pattern in the output, program and arguments.
const SHELLS: [(&str, &str, &[&str]); 8] = [
    ("bash", r"version (\d\S*)", &["bash", "--version"]),
    ("zsh", r"^zsh (\d\S*)", &["zsh", "--version"]),
    ("tcsh", r"^tcsh (\d\S*)", &["tcsh", "--version"]),
    (
        "powershell",
        r"PSVersion\s+(\d\S*)",
        &["powershell", "-NonInteractive", "$PSVersionTable"],
    ),
    (
        "perl",
        r"^(\d\S*)",
        &["perl", "-e", "printf \"%vd\\n\", $^V;"],
    ),
    ("python", r"^Python (\d\S*)", &["python", "-V"]),
    ("ruby", r"^ruby (\d\S*)", &["ruby", "-v"]),
    ("php", r"^PHP (\d\S*)", &["php", "-v"]),
];

/// `cmd.shell_info`.
pub fn shell_info(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("shell"));
    let Some((_, pattern, argv)) = SHELLS.iter().find(|(known, ..)| *known == name) else {
        let error = format!("Salt does not know how to get the version number for {name}");
        return Ok(map! {"error" => error, "installed" => None::<bool>}.into());
    };
    let failed = |reason: &str| {
        let error = format!(
            "Unable to run command '{}' Reason: {reason}",
            argv.join(" ")
        );
        Ok(map! {"error" => error, "installed" => false}.into())
    };
    let Some(path) = which(argv[0]) else {
        return failed(&format!(
            "[Errno 2] No such file or directory: '{}'",
            argv[0]
        ));
    };
    let helper = Helper {
        merge: true,
        ..Helper::new(argv.iter().copied())
    };
    let printed = match helper.run(Duration::from_secs(10)) {
        Ok(done) => String::from_utf8_lossy(&done.stdout).into_owned(),
        Err(_) => return failed("Timed out."),
    };
    let found = RegexBuilder::new(pattern)
        .case_insensitive(true)
        .build()
        .ok()
        .and_then(|p| Some(p.captures(&printed)?.get(1)?.as_str().to_owned()));
    let Some(raw) = found else {
        let error = format!(
            "The version regex pattern for shell {name}, could not find the version string"
        );
        return Ok(map! {"installed" => None::<bool>, "path" => path, "error" => error, "stdout" => printed}.into());
    };
    let digits = raw
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()
        .unwrap_or_default();
    let mut parts: Vec<&str> = digits.split('.').take(3).collect();
    if parts.len() == 1 {
        parts.push("0");
    }
    let version = parts.join(".");
    Ok(
        map! {"installed" => true, "path" => path, "version_raw" => raw, "version" => version}
            .into(),
    )
}

/// `cmd.tty`: writes only to terminals, by name below `/dev`.
pub fn tty(call: &mut Call<'_>) -> Result {
    let device = call.text("device").unwrap_or_default();
    let error = |text: String| Ok(map! {"Error" => text}.into());
    let path = match device.strip_prefix("pts") {
        Some(rest) => format!("/dev/pts/{}", rest.trim_start_matches('/')),
        None if device.starts_with("tty") => format!("/dev/{device}"),
        None => return error("The specified device is not a valid TTY".to_owned()),
    };
    let echo = call.text("echo").unwrap_or_default();
    let safe = !path.contains("..");
    let file = std::fs::OpenOptions::new().write(true).open(&path);
    match file.and_then(|mut file| file.write_all(echo.as_bytes())) {
        Ok(()) if safe => {
            Ok(map! {"Success" => format!("Message was successfully echoed to {path}")}.into())
        }
        _ => error(format!("Echoing to {path} returned error")),
    }
}
