//! Frames of STOMP 1.0 and 1.1, used with MCollective's older brokers (reference, section 13). Bodies are bytes.
//!
//! Headers of 1.0 are not escaped; those of 1.1 have escapes for line ends, colons and backslashes, except in
//! frames that open a connection.

use std::fmt;

/// Most bytes in all headers of a frame.
const LARGEST_HEAD: usize = 64 << 10;
/// Most headers of a frame.
const MOST_HEADERS: usize = 128;

/// Why a stream is not STOMP, or a frame cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StompError {
    /// Headers or body exceed a limit: which.
    TooLarge(&'static str),
    /// Something is malformed: what.
    Malformed(String),
}

impl fmt::Display for StompError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            StompError::TooLarge(limit) => {
                write!(f, "a frame of STOMP has more {limit} than allowed")
            }
            StompError::Malformed(what) => write!(f, "this is not a frame of STOMP: {what}"),
        }
    }
}

impl std::error::Error for StompError {}

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// `CONNECT`, `SEND`, `MESSAGE`, ...
    pub command: String,
    /// Headers in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Frame {
    /// A frame without headers.
    pub fn new(command: &str) -> Frame {
        Frame {
            command: command.to_owned(),
            ..Frame::default()
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Frame {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The first header of that name; others are ignored.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Appends the frame to `out`; with a body, `content-length` is added.
    ///
    /// # Errors
    /// A header contains a byte that would end it, and there are no escapes; nothing was appended.
    pub fn encode(&self, escapes: bool, out: &mut Vec<u8>) -> Result<(), StompError> {
        let begin = out.len();
        let written = self.append(escapes, out);
        if written.is_err() {
            out.truncate(begin);
        }
        written
    }

    fn append(&self, escapes: bool, out: &mut Vec<u8>) -> Result<(), StompError> {
        out.extend_from_slice(self.command.as_bytes());
        out.push(b'\n');
        for (name, value) in &self.headers {
            put(name, true, escapes, out)?;
            out.push(b':');
            put(value, false, escapes, out)?;
            out.push(b'\n');
        }
        if !self.body.is_empty() && self.header("content-length").is_none() {
            out.extend_from_slice(format!("content-length:{}\n", self.body.len()).as_bytes());
        }
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        out.push(0);
        Ok(())
    }
}

fn put(text: &str, name: bool, escapes: bool, out: &mut Vec<u8>) -> Result<(), StompError> {
    let bad = |what: &str| {
        let start: String = text.chars().take(80).collect();
        Err(StompError::Malformed(format!(
            "{what} in the header {start:?}"
        )))
    };
    for octet in text.bytes() {
        match octet {
            b'\n' | b':' | b'\\' if escapes => {
                out.push(b'\\');
                out.push(match octet {
                    b'\n' => b'n',
                    b':' => b'c',
                    _ => b'\\',
                });
            }
            b'\n' | b'\r' | 0 => return bad("a line end or zero"),
            b':' if name => return bad("a colon"),
            _ => out.push(octet),
        }
    }
    Ok(())
}

enum State {
    /// Looking for the end of the headers, from this offset.
    Head(usize),
    /// The headers are complete; the body has this length, or ends at a NUL, which is looked for from this offset.
    Body(Frame, Option<usize>, usize),
}

/// Decodes frames from a stream.
pub struct Decoder {
    buffer: Vec<u8>,
    state: State,
    largest: usize,
    escapes: bool,
}

impl Decoder {
    /// A decoder for bodies of up to `largest` bytes. Escapes are off initially.
    pub fn new(largest: usize) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            state: State::Head(0),
            largest,
            escapes: false,
        }
    }

    /// Sets whether headers of later frames have escapes.
    pub fn set_escapes(&mut self, escapes: bool) {
        self.escapes = escapes;
    }

    /// Adds bytes from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame; line ends between frames (heartbeats) are skipped.
    ///
    /// # Errors
    /// The stream is not STOMP or exceeds a limit; it cannot be decoded any further.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, StompError> {
        loop {
            match std::mem::replace(&mut self.state, State::Head(0)) {
                State::Head(scanned) => match self.head(scanned)? {
                    Some(state) => self.state = state,
                    None => return Ok(None),
                },
                State::Body(frame, length, scanned) => {
                    return self.body(frame, length, scanned);
                }
            }
        }
    }

    fn head(&mut self, scanned: usize) -> Result<Option<State>, StompError> {
        let line_end = |c: &u8| *c != b'\n' && *c != b'\r';
        if scanned == 0 {
            let beats = self.buffer.iter().position(line_end);
            self.buffer.drain(..beats.unwrap_or(self.buffer.len()));
        }
        let Some((end, next)) = blank_line(&self.buffer, scanned) else {
            if self.buffer.len() > LARGEST_HEAD {
                return Err(StompError::TooLarge("bytes of headers"));
            }
            // A line end may be split.
            self.state = State::Head(self.buffer.len().saturating_sub(2));
            return Ok(None);
        };
        if end > LARGEST_HEAD {
            return Err(StompError::TooLarge("bytes of headers"));
        }
        let frame = parse_head(&self.buffer[..end], self.escapes)?;
        self.buffer.drain(..next);
        let length = match frame.header("content-length") {
            Some(text) => Some(text.trim().parse::<usize>().map_err(|_| {
                StompError::Malformed(format!("a content-length of {:?}", cut(text)))
            })?),
            None => None,
        };
        if length.unwrap_or(0) > self.largest {
            return Err(StompError::TooLarge("bytes of body"));
        }
        Ok(Some(State::Body(frame, length, 0)))
    }

    fn body(
        &mut self,
        mut frame: Frame,
        length: Option<usize>,
        scanned: usize,
    ) -> Result<Option<Frame>, StompError> {
        let end = match length {
            Some(length) => (self.buffer.len() > length).then_some(length),
            None => {
                let found = self.buffer[scanned..].iter().position(|c| *c == 0);
                found.map(|at| scanned + at)
            }
        };
        let Some(end) = end else {
            if self.buffer.len() > self.largest {
                return Err(StompError::TooLarge("bytes of body"));
            }
            let scanned = match length {
                Some(_) => 0,
                None => self.buffer.len(),
            };
            self.state = State::Body(frame, length, scanned);
            return Ok(None);
        };
        if end > self.largest {
            return Err(StompError::TooLarge("bytes of body"));
        }
        if self.buffer[end] != 0 {
            let what = "the body is not followed by NUL";
            return Err(StompError::Malformed(what.into()));
        }
        frame.body = self.buffer[..end].to_vec();
        self.buffer.drain(..=end);
        Ok(Some(frame))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Where the last header line ends, and where the body starts.
fn blank_line(buffer: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        at += buffer.get(at..)?.iter().position(|c| *c == b'\n')?;
        match buffer.get(at + 1..)? {
            [b'\n', ..] => return Some((at, at + 2)),
            [b'\r', b'\n', ..] => return Some((at, at + 3)),
            _ => at += 1,
        }
    }
}

fn parse_head(head: &[u8], escapes: bool) -> Result<Frame, StompError> {
    let text = std::str::from_utf8(head)
        .map_err(|_| StompError::Malformed("headers that are not UTF-8".into()))?;
    let mut lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    let command = lines.next().unwrap_or_default();
    if command.is_empty() || !command.bytes().all(|c| c.is_ascii_uppercase()) {
        let what = format!("the command {:?}", cut(command));
        return Err(StompError::Malformed(what));
    }
    let plain = !escapes || matches!(command, "CONNECT" | "CONNECTED");
    let mut frame = Frame::new(command);
    for line in lines {
        if frame.headers.len() == MOST_HEADERS {
            return Err(StompError::TooLarge("headers"));
        }
        let Some((name, value)) = line.split_once(':') else {
            let what = format!("the header {:?}", cut(line));
            return Err(StompError::Malformed(what));
        };
        frame.headers.push(if plain {
            (name.to_owned(), value.to_owned())
        } else {
            (unescape(name)?, unescape(value)?)
        });
    }
    Ok(frame)
}

fn unescape(text: &str) -> Result<String, StompError> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('c') => ':',
                Some('\\') => '\\',
                // From 1.2, but some brokers always send it.
                Some('r') => '\r',
                _ => {
                    let what = format!("an unknown escape in {:?}", cut(text));
                    return Err(StompError::Malformed(what));
                }
            },
            letter => letter,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
