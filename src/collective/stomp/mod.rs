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
    /// Skipping the headers of a frame: the length of its body, and whether the buffer begins within a line.
    SkipHead(Option<usize>, bool),
    /// Skipping the body of a frame: that many bytes with the NUL, or up to the NUL.
    SkipBody(Option<usize>),
}

/// Longest header line that is looked at while headers are skipped: `content-length` is shorter.
const SKIPPED_LINE: usize = 1024;

/// Decodes frames from a stream.
pub struct Decoder {
    buffer: Vec<u8>,
    state: State,
    largest: usize,
    escapes: bool,
    skipped: Vec<StompError>,
}

impl Decoder {
    /// A decoder for bodies of up to `largest` bytes. Escapes are off initially.
    pub fn new(largest: usize) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            state: State::Head(0),
            largest,
            escapes: false,
            skipped: Vec::new(),
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

    /// Why frames were skipped since the last call: they exceed a limit, or their headers are malformed. Anybody who may
    /// publish can send such a frame, so it does not end the stream.
    pub fn take_skipped(&mut self) -> Vec<StompError> {
        std::mem::take(&mut self.skipped)
    }

    /// The next complete frame; line ends between frames (heartbeats) are skipped.
    ///
    /// # Errors
    /// The stream is not STOMP; it cannot be decoded any further.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, StompError> {
        loop {
            let next = match std::mem::replace(&mut self.state, State::Head(0)) {
                State::Head(scanned) => self.head(scanned)?,
                State::Body(frame, length, scanned) => match self.body(frame, length, scanned)? {
                    Some(frame) => return Ok(Some(frame)),
                    None => None,
                },
                State::SkipHead(length, within) => self.skip_head(length, within)?,
                State::SkipBody(left) => self.skip_body(left)?,
            };
            match next {
                Some(state) => self.state = state,
                // A body over the limit was left to be skipped.
                None if matches!(self.state, State::SkipBody(_)) && !self.buffer.is_empty() => {}
                None => return Ok(None),
            }
        }
    }

    /// Leaves a frame whose headers are still in the buffer.
    fn skip(&mut self, why: StompError) -> Option<State> {
        self.skipped.push(why);
        Some(State::SkipHead(None, false))
    }

    fn head(&mut self, scanned: usize) -> Result<Option<State>, StompError> {
        let line_end = |c: &u8| *c != b'\n' && *c != b'\r';
        if scanned == 0 {
            let beats = self.buffer.iter().position(line_end);
            self.buffer.drain(..beats.unwrap_or(self.buffer.len()));
        }
        let too_large = StompError::TooLarge("bytes of headers");
        let Some((end, next)) = blank_line(&self.buffer, scanned) else {
            if self.buffer.len() > LARGEST_HEAD {
                check_command(&self.buffer)?;
                return Ok(self.skip(too_large));
            }
            // A line end may be split.
            self.state = State::Head(self.buffer.len().saturating_sub(2));
            return Ok(None);
        };
        check_command(&self.buffer)?;
        if end > LARGEST_HEAD {
            return Ok(self.skip(too_large));
        }
        let frame = match parse_head(&self.buffer[..end], self.escapes) {
            Ok(frame) => frame,
            Err(why) => return Ok(self.skip(why)),
        };
        self.buffer.drain(..next);
        let length = frame.header("content-length").map(length).transpose()?;
        if length.unwrap_or(0) > self.largest {
            self.skipped.push(StompError::TooLarge("bytes of body"));
            return Ok(Some(skipping(length)));
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
        if length.is_none() && end.unwrap_or(self.buffer.len()) > self.largest {
            self.skipped.push(StompError::TooLarge("bytes of body"));
            self.state = State::SkipBody(None);
            return Ok(None);
        }
        let Some(end) = end else {
            let scanned = match length {
                Some(_) => 0,
                None => self.buffer.len(),
            };
            self.state = State::Body(frame, length, scanned);
            return Ok(None);
        };
        if self.buffer[end] != 0 {
            return Err(no_nul());
        }
        frame.body = self.buffer[..end].to_vec();
        self.buffer.drain(..=end);
        Ok(Some(frame))
    }

    /// Skips headers, but for the length of the body; `within`: the buffer begins within a line.
    fn skip_head(
        &mut self,
        mut known: Option<usize>,
        mut within: bool,
    ) -> Result<Option<State>, StompError> {
        let mut at = 0;
        while let Some(end) = self.buffer[at..].iter().position(|c| *c == b'\n') {
            let line = &self.buffer[at..at + end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            at += end + 1;
            if std::mem::take(&mut within) {
                continue;
            }
            if line.is_empty() {
                self.buffer.drain(..at);
                return Ok(Some(skipping(known)));
            }
            if let (None, Some(text)) = (known, line.strip_prefix(b"content-length:")) {
                known = Some(length(&String::from_utf8_lossy(text))?);
            }
        }
        self.buffer.drain(..at);
        if within || self.buffer.len() > SKIPPED_LINE {
            self.buffer.clear();
            within = true;
        }
        self.state = State::SkipHead(known, within);
        Ok(None)
    }

    fn skip_body(&mut self, left: Option<usize>) -> Result<Option<State>, StompError> {
        let Some(left) = left else {
            let end = self.buffer.iter().position(|c| *c == 0);
            self.buffer
                .drain(..end.map_or(self.buffer.len(), |at| at + 1));
            if end.is_none() {
                self.state = State::SkipBody(None);
            }
            return Ok(end.map(|_| State::Head(0)));
        };
        let here = left.min(self.buffer.len());
        if here == left && self.buffer[here - 1] != 0 {
            return Err(no_nul());
        }
        self.buffer.drain(..here);
        if here < left {
            self.state = State::SkipBody(Some(left - here));
            return Ok(None);
        }
        Ok(Some(State::Head(0)))
    }
}

/// Skips a body of this length, and its NUL.
fn skipping(length: Option<usize>) -> State {
    State::SkipBody(length.map(|length| length.saturating_add(1)))
}

fn no_nul() -> StompError {
    StompError::Malformed("the body is not followed by NUL".into())
}

/// A `content-length`.
fn length(text: &str) -> Result<usize, StompError> {
    let number = text.trim().parse();
    number.map_err(|_| StompError::Malformed(format!("a content-length of {:?}", cut(text))))
}

/// Checks that headers begin with a command: after anything else no frame can be found any more.
fn check_command(head: &[u8]) -> Result<(), StompError> {
    let line = head.split(|c| *c == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if !line.is_empty() && line.iter().all(u8::is_ascii_uppercase) {
        return Ok(());
    }
    let what = format!("the command {:?}", cut(&String::from_utf8_lossy(line)));
    Err(StompError::Malformed(what))
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
