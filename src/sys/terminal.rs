//! Prompts at the terminal.

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

/// Prompts for one line; the question goes to standard error.
///
/// # Errors
/// Standard input is at its end.
pub fn ask(question: &str) -> io::Result<String> {
    eprint!("{question}");
    io::stderr().flush()?;
    line(&mut io::stdin().lock())
}

/// Prompts for one line without echo at the terminal or, if there is none, reads it from standard input.
///
/// # Errors
/// There is no input.
pub fn ask_hidden(question: &str) -> io::Result<String> {
    let Ok(tty) = File::options().read(true).write(true).open("/dev/tty") else {
        return ask(question);
    };
    let before = tcgetattr(&tty)?;
    let mut hidden = before.clone();
    hidden.local_flags.remove(LocalFlags::ECHO);
    hidden.local_flags.insert(LocalFlags::ECHONL);
    (&tty).write_all(question.as_bytes())?;
    tcsetattr(&tty, SetArg::TCSAFLUSH, &hidden)?;
    let answer = line(&mut BufReader::new(&tty));
    tcsetattr(&tty, SetArg::TCSAFLUSH, &before)?;
    answer
}

fn line(input: &mut dyn BufRead) -> io::Result<String> {
    let mut text = String::new();
    if input.read_line(&mut text)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "nobody answers",
        ));
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
