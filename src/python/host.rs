//! One conversation with a running host: a request, and what it asks before it answers.

use crate::frame;
use crate::marshal::{self, MarshalError};
use crate::process::Process;
use halite_wire::{Map, Value};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// An exception that Python code has raised, or that is to be raised there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PythonError {
    /// `CommandExecutionError` and the like, if it is one of the exceptions that have outcomes of their own.
    pub kind: String,
    /// The class, with its module unless that is Python's own.
    pub class: String,
    /// `str(exception)`.
    pub text: String,
    /// The lines of the traceback that are of users' code.
    pub trace: String,
}

impl PythonError {
    /// An exception to raise in Python; `class` is one of Python's own or of `salt.exceptions`.
    pub fn new(class: &str, text: impl Into<String>) -> PythonError {
        PythonError {
            class: class.to_owned(),
            text: text.into(),
            ..PythonError::default()
        }
    }

    fn from_map(map: &Map) -> PythonError {
        let text = |key: &str| map.str(key).unwrap_or_default().to_owned();
        PythonError {
            kind: text("kind"),
            class: text("class"),
            text: text("text"),
            trace: text("trace"),
        }
    }

    fn to_map(&self) -> Map {
        halite_wire::map! {"class" => self.class.as_str(), "text" => self.text.as_str()}
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum HostError {
    /// The code has raised an exception.
    Raised(PythonError),
    /// There is no host, or it has died, or it speaks nonsense: text with the remedy.
    Broken(String),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Raised(e) => write!(f, "{}: {}", e.class, e.text),
            HostError::Broken(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for HostError {}

/// What Python code asks of us while it runs.
pub trait Service {
    /// Answers a question by name.
    ///
    /// # Errors
    /// An exception to raise in Python.
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError>;

    /// Whether somebody has asked that the code ends at once.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Has no functions, and answers nothing.
pub struct Nothing;

impl Service for Nothing {
    fn ask(&mut self, what: &str, _: &[Value]) -> Result<Value, PythonError> {
        match what {
            "has" => Ok(0.into()),
            "names" => Ok(Vec::<String>::new().into()),
            "doc" => Ok(Value::Nil),
            _ => {
                let text = format!("{what} is not available here");
                Err(PythonError::new("RuntimeError", text))
            }
        }
    }
}

/// A running host, used by one thread at a time; a thread whose question is being answered may ask anew.
pub struct Host {
    process: Mutex<Process>,
    turn: Mutex<Option<(ThreadId, usize)>>,
    free: Condvar,
    /// When it is ended, whatever it does.
    deadline: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to talk to the host.
pub struct Turn<'a> {
    host: &'a Host,
    /// How many requests of this thread wait for one another.
    pub depth: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turn = lock(&self.host.turn);
        *turn = match *turn {
            Some((thread, depth)) if depth > 1 => Some((thread, depth - 1)),
            _ => None,
        };
        self.host.free.notify_one();
    }
}

impl Host {
    /// A host that has just been started.
    pub fn new(process: Process, deadline: Option<Instant>) -> Host {
        Host {
            deadline,
            process: Mutex::new(process),
            turn: Mutex::new(None),
            free: Condvar::new(),
        }
    }

    /// Ends the process with all that it has started in its process group.
    pub fn kill_all(&self) {
        lock(&self.process).kill_all();
    }

    /// Waits until no other thread talks to the host.
    pub fn turn(&self) -> Turn<'_> {
        let me = std::thread::current().id();
        let mut turn = lock(&self.turn);
        loop {
            let depth = match *turn {
                None => 1,
                Some((thread, depth)) if thread == me => depth + 1,
                Some(_) => {
                    turn = self.free.wait(turn).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            *turn = Some((me, depth));
            return Turn { host: self, depth };
        }
    }

    /// Sends a request and answers questions until its own answer is there.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn request(
        &self,
        name: &str,
        changes: Map,
        args: Vec<Value>,
        deadline: Option<Instant>,
        service: &mut dyn Service,
    ) -> Result<Value, HostError> {
        let _turn = self.turn();
        let deadline = deadline.into_iter().chain(self.deadline).min();
        let request = pair(name, Value::Array(vec![changes.into(), args.into()]));
        lock(&self.process).forget_words();
        self.send(&request, deadline, service)?;
        loop {
            let Value::Array(mut message) = self.receive(deadline, service)? else {
                return Err(nonsense());
            };
            let kind = match message.first() {
                Some(Value::Str(kind)) => kind.clone(),
                _ => return Err(nonsense()),
            };
            match (kind.as_str(), message.len()) {
                ("ok", 2) => return Ok(message.remove(1)),
                ("err", 2) => {
                    let map = message.remove(1).into_map().ok_or_else(nonsense)?;
                    return Err(HostError::Raised(PythonError::from_map(&map)));
                }
                ("log", 4) => log_record(&message),
                ("ask", 4) => {
                    let what = message[1].as_str().unwrap_or_default().to_owned();
                    let args = message[2].as_array().unwrap_or_default();
                    let answer = match service.ask(&what, args) {
                        Ok(value) => ("ok", value),
                        Err(e) => ("err", e.to_map().into()),
                    };
                    // The number tells the host which question this is for.
                    let number = message[3].clone();
                    let answer = Value::Array(vec![answer.0.into(), answer.1, number]);
                    self.send(&answer, deadline, service)?;
                }
                _ => return Err(nonsense()),
            }
        }
    }

    fn send(
        &self,
        message: &Value,
        deadline: Option<Instant>,
        service: &dyn Service,
    ) -> Result<(), HostError> {
        let mut body = Vec::new();
        marshal::encode(message, &mut body);
        let mut process = lock(&self.process);
        let stream = Limited {
            stream: &process.stream,
            deadline,
            service,
        };
        frame::write(stream, &body).map_err(|e| broken(&mut process, &e))
    }

    fn receive(
        &self,
        deadline: Option<Instant>,
        service: &dyn Service,
    ) -> Result<Value, HostError> {
        let mut process = lock(&self.process);
        let stream = Limited {
            stream: &process.stream,
            deadline,
            service,
        };
        let body = frame::read(stream).map_err(|e| broken(&mut process, &e))?;
        marshal::decode(&body).map_err(|e: MarshalError| {
            HostError::Broken(format!("the Python process sent something unreadable: {e}"))
        })
    }
}

/// How often it is looked whether to go on.
const LOOK: Duration = Duration::from_millis(250);

/// A connection that is read and written until it is to be given up, however much or little comes meanwhile.
struct Limited<'a> {
    stream: &'a UnixStream,
    deadline: Option<Instant>,
    service: &'a dyn Service,
}

impl Limited<'_> {
    fn go_on<T>(&self, mut act: impl FnMut(&UnixStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            if self.service.is_stopped() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let left = self
                .deadline
                .map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let look = Some(left.map_or(LOOK, |left| left.min(LOOK)));
            self.stream.set_read_timeout(look)?;
            self.stream.set_write_timeout(look)?;
            match act(self.stream) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.go_on(|mut stream| stream.read(buffer))
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.go_on(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pair(name: &str, value: Value) -> Value {
    Value::Array(vec![name.into(), value])
}

fn nonsense() -> HostError {
    HostError::Broken("the Python process sent something other than an answer".to_owned())
}

fn broken(process: &mut Process, e: &io::Error) -> HostError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    HostError::Broken(match e.kind() {
        TimedOut => {
            process.kill_all();
            "the Python process took too long and was ended".to_owned()
        }
        ConnectionAborted => {
            process.kill_all();
            "the Python process was ended, as was asked for".to_owned()
        }
        BrokenPipe | ConnectionReset | UnexpectedEof => format!(
            "the Python process has ended ({}) while the function ran",
            process.ending()
        ),
        _ => format!("the Python process: {e}"),
    })
}

fn log_record(message: &[Value]) {
    let text = |at: usize| message[at].as_str().unwrap_or_default();
    let level = match text(1) {
        "error" => log::Level::Error,
        "warn" => log::Level::Warn,
        "info" => log::Level::Info,
        "debug" => log::Level::Debug,
        _ => log::Level::Trace,
    };
    log::log!(level, "{}: {}", text(2), text(3).trim_end());
}
