//! A small HTTP/1.1 client for the engine's socket: one request per connection, everything it reads has a limit.

use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Most answers of the 100 kind before the real one.
const MAX_INTERIM: usize = 8;
/// Most bytes of a status line and its headers.
const MAX_HEAD: usize = 64 << 10;
/// Most bytes of the line before a chunk.
const MAX_CHUNK_LINE: usize = 4 << 10;
/// Most bytes of an answer that is kept in memory.
pub const MAX_BODY: u64 = 64 << 20;
/// Most bytes of an answer that goes to a file.
pub const MAX_FILE: u64 = 1 << 40;

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and port, without TLS.
    Tcp(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
            Address::Tcp(host) => write!(f, "tcp://{host}"),
        }
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// For the whole answer.
    Total(Duration),
    /// For each part of it.
    Each(Duration),
}

/// What is sent.
pub enum Body<'a> {
    /// Nothing.
    None,
    /// JSON.
    Json(Vec<u8>),
    /// A stream of this type, in chunks.
    Stream(&'static str, &'a mut dyn Read),
}

/// A request.
pub struct Request<'a, 'b> {
    /// The method.
    pub method: &'static str,
    /// Path and query.
    pub path: &'a str,
    /// More headers.
    pub headers: &'a [(&'static str, String)],
    /// What is sent.
    pub body: Body<'b>,
    /// How long to wait.
    pub patience: Patience,
}

/// An answer of which the head has been read.
pub struct Answer {
    /// The status code.
    pub status: u16,
    length: Length,
    source: BufReader<Timed>,
}

/// How much of the body is left.
enum Length {
    Bytes(u64),
    /// Bytes left of the current chunk; `None` before its first line.
    Chunk(Option<u64>),
    UntilClose,
    Done,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection that keeps its time.
struct Timed {
    stream: Stream,
    patience: Patience,
    since: Instant,
}

impl Timed {
    fn open(address: &Address, patience: Patience) -> io::Result<Timed> {
        let stream = match address {
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Tcp(host) => {
                let mut last = io::Error::from(io::ErrorKind::NotFound);
                let mut open = None;
                for one in host.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&one, Duration::from_secs(20)) {
                        Ok(stream) => {
                            open = Some(stream);
                            break;
                        }
                        Err(e) => last = e,
                    }
                }
                Stream::Tcp(open.ok_or(last)?)
            }
        };
        Ok(Timed {
            stream,
            patience,
            since: Instant::now(),
        })
    }

    /// Sets how long the next call may take.
    fn limit(&self) -> io::Result<()> {
        let left = match self.patience {
            Patience::Each(time) => time,
            Patience::Total(time) => time.saturating_sub(self.since.elapsed()),
        };
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match &self.stream {
            Stream::Unix(s) => s
                .set_read_timeout(Some(left))
                .and_then(|()| s.set_write_timeout(Some(left))),
            Stream::Tcp(s) => s
                .set_read_timeout(Some(left))
                .and_then(|()| s.set_write_timeout(Some(left))),
        }
    }
}

/// What a socket says of a timeout depends on the system.
fn timed(result: io::Result<usize>) -> io::Result<usize> {
    result.map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => e,
    })
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        timed(match &mut self.stream {
            Stream::Unix(s) => s.read(buf),
            Stream::Tcp(s) => s.read(buf),
        })
    }
}

impl Write for Timed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.limit()?;
        timed(match &mut self.stream {
            Stream::Unix(s) => s.write(buf),
            Stream::Tcp(s) => s.write(buf),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Sends a request and reads the head of its answer.
///
/// # Errors
/// No connection, a timeout, or an answer that is not HTTP.
pub fn send(address: &Address, request: Request<'_, '_>) -> io::Result<Answer> {
    let mut source = BufReader::new(Timed::open(address, request.patience)?);
    let sent = write_request(source.get_mut(), request);
    let answer = read_head(source);
    match sent {
        // An engine may refuse before it has read everything.
        Err(e) if answer.is_err() => Err(e),
        _ => answer,
    }
}

fn write_request(to: &mut Timed, request: Request<'_, '_>) -> io::Result<()> {
    let Request {
        method,
        path,
        headers,
        body,
        ..
    } = request;
    if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err(bad("a path with spaces"));
    }
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nUser-Agent: halite\r\n"
    );
    for (name, value) in headers {
        if value.contains(['\r', '\n']) {
            return Err(bad("a header with a line break"));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match body {
        Body::None => {
            if method != "GET" {
                head.push_str("Content-Length: 0\r\n");
            }
            to.write_all(format!("{head}\r\n").as_bytes())
        }
        Body::Json(bytes) => {
            let length = bytes.len();
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            ));
            to.write_all(head.as_bytes())?;
            to.write_all(&bytes)
        }
        Body::Stream(kind, from) => {
            head.push_str(&format!(
                "Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
            ));
            to.write_all(head.as_bytes())?;
            let mut part = vec![0; 64 << 10];
            loop {
                let n = from.read(&mut part)?;
                if n == 0 {
                    return to.write_all(b"0\r\n\r\n");
                }
                to.write_all(format!("{n:x}\r\n").as_bytes())?;
                to.write_all(&part[..n])?;
                to.write_all(b"\r\n")?;
            }
        }
    }
}

/// Reads a line of at most so many bytes, without its end.
fn line(source: &mut impl Read, most: usize) -> io::Result<String> {
    let mut found = Vec::new();
    let mut byte = [0];
    loop {
        source.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            break;
        }
        found.push(byte[0]);
        if found.len() > most {
            return Err(bad("a line that is too long"));
        }
    }
    if found.last() == Some(&b'\r') {
        found.pop();
    }
    Ok(String::from_utf8_lossy(&found).into_owned())
}

fn read_head(mut source: BufReader<Timed>) -> io::Result<Answer> {
    for _ in 0..MAX_INTERIM {
        let mut left = MAX_HEAD;
        let mut next = |source: &mut BufReader<Timed>| {
            let line = line(source, left)?;
            left = left.saturating_sub(line.len() + 2);
            Ok::<_, io::Error>(line)
        };
        let first = next(&mut source)?;
        let mut words = first.split(' ');
        let protocol = words.next().unwrap_or_default();
        let status = words.next().and_then(|s| s.parse::<u16>().ok());
        let Some(status) = status.filter(|_| protocol.starts_with("HTTP/1.")) else {
            return Err(bad("an answer that is not HTTP"));
        };
        let mut length = Length::UntilClose;
        loop {
            let header = next(&mut source)?;
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').ok_or_else(|| bad("a bad header"))?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err(bad("an unknown encoding of the body"));
                }
                length = Length::Chunk(None);
            } else if name.eq_ignore_ascii_case("content-length")
                && !matches!(length, Length::Chunk(_))
            {
                let bytes = value.parse().map_err(|_| bad("a bad length"))?;
                length = Length::Bytes(bytes);
            }
        }
        // 100 Continue is before the answer.
        if (100..200).contains(&status) {
            continue;
        }
        if matches!(status, 204 | 304) {
            length = Length::Done;
        }
        return Ok(Answer {
            status,
            length,
            source,
        });
    }
    Err(bad("only announcements of an answer"))
}

impl Answer {
    /// The whole body.
    ///
    /// # Errors
    /// It is larger than [`MAX_BODY`], does not come in time or ends too early.
    pub fn whole(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.by_ref().take(MAX_BODY + 1).read_to_end(&mut body)?;
        if body.len() as u64 > MAX_BODY {
            return Err(bad("an answer that is too large"));
        }
        Ok(body)
    }

    /// Sends input on the connection while its output is read, for commands that the engine runs.
    ///
    /// # Errors
    /// As [`Answer::whole`].
    pub fn talk(mut self, input: &[u8]) -> io::Result<Vec<u8>> {
        let own = &self.source.get_ref().stream;
        let mut to: Box<dyn Write + Send> = match own {
            Stream::Unix(s) => Box::new(s.try_clone()?),
            Stream::Tcp(s) => Box::new(s.try_clone()?),
        };
        let end: Box<dyn Fn() -> io::Result<()> + Send> = match own {
            Stream::Unix(s) => {
                let s = s.try_clone()?;
                Box::new(move || s.shutdown(Shutdown::Write))
            }
            Stream::Tcp(s) => {
                let s = s.try_clone()?;
                Box::new(move || s.shutdown(Shutdown::Write))
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command may end before it has read everything.
                let _ = to.write_all(input).and_then(|()| end());
            });
            self.whole()
        })
    }

    fn read_within(&mut self, buf: &mut [u8], left: u64) -> io::Result<u64> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        match self.source.read(&mut buf[..most])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n as u64),
        }
    }
}

impl Read for Answer {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            match self.length {
                Length::Done | Length::Bytes(0) => return Ok(0),
                Length::UntilClose => return self.source.read(buf),
                Length::Bytes(left) => {
                    let n = self.read_within(buf, left)?;
                    self.length = Length::Bytes(left - n);
                    return Ok(n as usize);
                }
                Length::Chunk(None) => {
                    let head = line(&mut self.source, MAX_CHUNK_LINE)?;
                    let size = head.split(';').next().unwrap_or_default().trim();
                    let size = u64::from_str_radix(size, 16).map_err(|_| bad("a bad chunk"))?;
                    if size > 0 {
                        self.length = Length::Chunk(Some(size));
                        continue;
                    }
                    let mut left = MAX_HEAD;
                    loop {
                        let trailer = line(&mut self.source, left)?;
                        if trailer.is_empty() {
                            break;
                        }
                        left = left.saturating_sub(trailer.len());
                    }
                    self.length = Length::Done;
                }
                Length::Chunk(Some(0)) => {
                    if !line(&mut self.source, 2)?.is_empty() {
                        return Err(bad("a bad chunk"));
                    }
                    self.length = Length::Chunk(None);
                }
                Length::Chunk(Some(left)) => {
                    let n = self.read_within(buf, left)?;
                    self.length = Length::Chunk(Some(left - n));
                    return Ok(n as usize);
                }
            }
        }
    }
}

/// A part of a path or query.
pub fn quoted(text: &str) -> String {
    let letters = text.bytes().map(|b| match b {
        b if b.is_ascii_alphanumeric() || b"_.-~:/".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// What the client makes of these bytes.
    fn answer(bytes: &'static [u8]) -> io::Result<(u16, Vec<u8>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = client.read(&mut request);
            let _ = client.write_all(bytes);
        });
        let request = Request {
            method: "GET",
            path: "/x",
            headers: &[],
            body: Body::None,
            patience: Patience::Total(Duration::from_millis(500)),
        };
        let done = send(&Address::Unix(path), request)
            .and_then(|mut answer| Ok((answer.status, answer.whole()?)));
        server.join().unwrap();
        done
    }

    #[test]
    fn bodies() {
        let of = |bytes| answer(bytes).unwrap();
        assert_eq!(
            of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc"),
            (200, b"ab".to_vec())
        );
        assert_eq!(
            of(b"HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nT: u\r\n\r\n"),
            (404, b"abc".to_vec())
        );
        assert_eq!(of(b"HTTP/1.0 200\r\n\r\nall"), (200, b"all".to_vec()));
        assert_eq!(
            of(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 204 N\r\n\r\n"),
            (204, Vec::new())
        );
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        for bytes in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
            b"SSH-2.0\r\n\r\n",
        ] {
            assert!(answer(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
