//! The thread of the connector, which establishes one connection after the other.

use super::{Heard, Place, Shared, Subscription, Waiting, held};
use crate::stomp::{Decoder, Frame, StompError};
use crate::wire::{LARGEST_PACKET, Packet, PacketForm, Refused};
use halite_config::CollectiveGateway;
use halite_transport::attempts::{Attempts, Ended};
use halite_transport::stream::{CONNECTING, Security, Stream};
use halite_transport::wake::{TICK, Woken};
use nix::poll::PollFlags;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes per read.
const PIECE: usize = 64 << 10;
/// Most bytes in the output buffer; more stays in the queue.
const UNWRITTEN: usize = 1 << 20;
/// Interval of heartbeats (STOMP 1.1), in both directions.
const BEAT: Duration = Duration::from_secs(30);
/// How long sending the last messages may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// Receipt for the initial subscriptions of a connection.
const READY: &str = "ready";
/// The default port of STOMP.
const PORT: u16 = 61613;

/// Connects until the connector is dropped.
pub(super) fn run(shared: &Shared, woken: &Woken) {
    let servers = &shared.settings.servers;
    let mut attempts = Attempts::default();
    while !shared.closing.load(Ordering::Acquire) {
        let server = attempts.server(servers);
        let end = session(shared, server, woken);
        if matches!(end, Ended::Closed) {
            return;
        }
        if let Some(words) = attempts.ended(server, end) {
            shared.sink.state(Heard::Down(words));
        }
        let pause = attempts.pause(servers.len());
        woken.pause(pause, &|| shared.closing.load(Ordering::Acquire), &|| {
            shared.sink.tick()
        });
    }
}

fn session(shared: &Shared, server: &str, woken: &Woken) -> Ended {
    let settings = &shared.settings;
    let security = settings.tls.then(|| Security {
        ca: settings.tls_ca.clone(),
        certificate: settings.tls_cert.clone(),
        key: settings.tls_key.clone(),
    });
    let mut stream = match Stream::connect(server, PORT, security.as_ref()) {
        Ok(stream) => stream,
        Err(e) => return Ended::Refused(e.to_string()),
    };
    let mut decoder = Decoder::new(LARGEST_PACKET);
    let greeting = match greet(&mut stream, &mut decoder, &shared.settings) {
        Ok(frame) => frame,
        Err(why) => return Ended::Refused(why),
    };
    if let Err(e) = stream.set_nonblocking() {
        return Ended::Refused(e.to_string());
    }
    let escapes = greeting
        .header("version")
        .is_some_and(|v| v.trim() != "1.0");
    decoder.set_escapes(escapes);
    let (sends, hears) = beats(&greeting);
    let now = Instant::now();
    let mut work = Work {
        shared,
        server,
        stream,
        decoder,
        escapes,
        unwritten: Vec::new(),
        written: 0,
        subscribed: HashMap::new(),
        followed: 0,
        up: false,
        sends,
        hears,
        last_sent: now,
        last_heard: now,
    };
    match work.run(woken) {
        Ok(()) => Ended::Closed,
        Err(why) if work.up => Ended::Lost(why),
        Err(why) => Ended::Refused(why),
    }
}

/// Logs in with user and password.
fn greet(
    stream: &mut Stream,
    decoder: &mut Decoder,
    settings: &CollectiveGateway,
) -> Result<Frame, String> {
    let beat = BEAT.as_millis();
    let mut connect = Frame::new("CONNECT")
        .with("accept-version", "1.1,1.0")
        .with("host", &settings.vhost)
        .with("heart-beat", format!("{beat},{beat}"));
    if let Some(user) = &settings.user {
        connect = connect.with("login", user);
    }
    if let Some(password) = &settings.password {
        connect = connect.with("passcode", password);
    }
    let mut out = Vec::new();
    connect.encode(false, &mut out).map_err(|_| {
        "vhost, user or password contain a line end, which STOMP cannot transmit".to_owned()
    })?;
    stream.write_all(&out).map_err(|e| e.to_string())?;
    let end = Instant::now() + CONNECTING;
    let mut piece = [0; 4096];
    while Instant::now() < end {
        let read = stream.read(&mut piece).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                "it does not reply to CONNECT".to_owned()
            }
            _ => e.to_string(),
        })?;
        if read == 0 {
            return Err("it closed the connection at once".to_owned());
        }
        decoder.push(&piece[..read]);
        if let Some(frame) = decoder.next_frame().map_err(|e| e.to_string())? {
            return match frame.command.as_str() {
                "CONNECTED" => Ok(frame),
                "ERROR" => Err(complaint(&frame)),
                other => Err(format!("it replies to CONNECT with {other:?}")),
            };
        }
    }
    Err("it does not reply to CONNECT".to_owned())
}

/// How often we must send something, and how long the server may be silent. `None` without heartbeats.
fn beats(greeting: &Frame) -> (Option<Duration>, Option<Duration>) {
    let header = greeting.header("heart-beat").unwrap_or("0,0");
    let mut numbers = header
        .split(',')
        .map(|text| text.trim().parse::<u64>().unwrap_or(0));
    let (its, asked) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let agreed = |other: u64| (other > 0).then(|| BEAT.max(Duration::from_millis(other)));
    (agreed(asked), agreed(its).map(|beat| beat * 2))
}

fn subscribe(subscription: &Subscription) -> Frame {
    let frame = Frame::new("SUBSCRIBE")
        .with("destination", &subscription.destination)
        .with("id", subscription.id.to_string())
        .with("ack", "auto");
    match &subscription.selector {
        Some(selector) => frame.with("selector", selector),
        None => frame,
    }
}

/// The text of an ERROR frame, with a remedy.
fn complaint(frame: &Frame) -> String {
    let body = String::from_utf8_lossy(&frame.body);
    let detail: String = body.trim().chars().take(300).collect();
    let message = frame.header("message").unwrap_or("it complains");
    let mut words = message.to_owned();
    if !detail.is_empty() && detail != message {
        words = format!("{words}: {}", detail.replace('\n', " "));
    }
    if words.contains("no exchange") {
        words.push_str(
            "; declare the exchanges <collective>_broadcast (topic) and <collective>_directed (direct)",
        );
    }
    words
}

struct Work<'a> {
    shared: &'a Shared,
    server: &'a str,
    stream: Stream,
    decoder: Decoder,
    escapes: bool,
    unwritten: Vec<u8>,
    /// How much of it has been written.
    written: usize,
    /// Current subscriptions at the broker, by id.
    subscribed: HashMap<u64, Subscription>,
    /// The version of the wanted subscriptions that they correspond to.
    followed: u64,
    up: bool,
    sends: Option<Duration>,
    hears: Option<Duration>,
    last_sent: Instant,
    last_heard: Instant,
}

impl Work<'_> {
    fn run(&mut self, woken: &Woken) -> Result<(), String> {
        self.follow()?;
        // Frames may have arrived together with the greeting.
        self.frames()?;
        // With subscriptions, it is up once the receipt of the last one arrives.
        if self.subscribed.is_empty() {
            self.is_up();
        }
        loop {
            if self.shared.closing.load(Ordering::Acquire) {
                return self.flush_remaining(woken);
            }
            self.fill()?;
            self.write()?;
            let mut wants = PollFlags::POLLIN;
            wants.set(PollFlags::POLLOUT, self.written < self.unwritten.len());
            woken.wait(Some((&self.stream, wants)), TICK)?;
            self.read()?;
            self.follow()?;
            self.shared.sink.tick();
            self.beat()?;
        }
    }

    fn is_up(&mut self) {
        self.up = true;
        self.shared.sink.state(Heard::Up(self.server.to_owned()));
    }

    fn put(&mut self, frame: &Frame) -> Result<(), String> {
        let put = frame.encode(self.escapes, &mut self.unwritten);
        put.map_err(|e| e.to_string())
    }

    /// Updates the subscriptions to the wanted ones.
    fn follow(&mut self) -> Result<(), String> {
        let version = self.shared.version.load(Ordering::Acquire);
        if version == self.followed {
            return Ok(());
        }
        self.followed = version;
        let wanted: HashMap<u64, Subscription> = {
            let wanted = held(&self.shared.wanted);
            let all = wanted.iter();
            all.filter_map(|(place, id)| Some((*id, self.shared.subscription(place, *id)?)))
                .collect()
        };
        let known: Vec<u64> = self.subscribed.keys().copied().collect();
        for id in known.into_iter().filter(|id| !wanted.contains_key(id)) {
            let mut frame = Frame::new("UNSUBSCRIBE").with("id", id.to_string());
            if let Some(gone) = self.subscribed.remove(&id) {
                frame = frame.with("destination", gone.destination);
            }
            self.put(&frame)?;
        }
        let mut last = None;
        for (id, subscription) in wanted {
            if self.subscribed.contains_key(&id) {
                continue;
            }
            if let Some(before) = last.replace(subscribe(&subscription)) {
                self.put(&before)?;
            }
            self.subscribed.insert(id, subscription);
        }
        match last {
            Some(last) if !self.up => self.put(&last.with("receipt", READY)),
            Some(last) => self.put(&last),
            None => Ok(()),
        }
    }

    /// Moves messages from the queue to the output buffer while it has room.
    fn fill(&mut self) -> Result<(), String> {
        while self.up && self.unwritten.len() - self.written < UNWRITTEN {
            let next = {
                let mut queue = held(&self.shared.queue);
                let next = queue.items.pop_front();
                queue.bytes -= next.as_ref().map_or(0, |item| item.frame.body.len());
                next
            };
            let Some(Waiting { to, frame, until }) = next else {
                return Ok(());
            };
            if Instant::now() > until {
                continue;
            }
            for (destination, selected) in to {
                let mut one = Frame::new(&frame.command).with("destination", destination);
                one.headers.extend(frame.headers.iter().cloned());
                if let Some(node) = selected {
                    one = one.with("mc_identity", node.as_str());
                }
                one.body.clone_from(&frame.body);
                if let Err(e) = self.put(&one) {
                    log::warn!("a message cannot be sent: {e}");
                }
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), String> {
        while self.written < self.unwritten.len() {
            match self.stream.write(&self.unwritten[self.written..]) {
                Ok(0) => return Err("it accepts no more data".to_owned()),
                Ok(count) => {
                    self.written += count;
                    self.last_sent = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if self.written > UNWRITTEN {
                        self.unwritten.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        self.unwritten.clear();
        self.written = 0;
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let mut piece = [0; PIECE];
        // An endless stream must not keep us from sending.
        for _ in 0..16 {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err("the server closed it".to_owned()),
                Ok(count) => {
                    self.last_heard = Instant::now();
                    self.decoder.push(&piece[..count]);
                    self.frames()?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(())
    }

    /// Handles all complete frames, and reports those that were skipped.
    fn frames(&mut self) -> Result<(), String> {
        loop {
            let frame = self.decoder.next_frame().map_err(|e| e.to_string())?;
            for why in self.decoder.take_skipped() {
                let refused = match why {
                    StompError::TooLarge(limit) => Refused::TooLarge(match limit {
                        "bytes of body" => "8 MiB of body",
                        "bytes of headers" => "64 KiB of headers",
                        _ => "128 headers",
                    }),
                    StompError::Malformed(what) => Refused::Malformed(what),
                };
                self.shared.sink.put(Heard::Refused(refused));
            }
            match frame {
                Some(frame) => self.heard(frame)?,
                None => return Ok(()),
            }
        }
    }

    /// The place of a message, from the id of the subscription or the name of a temporary queue.
    fn place(&self, frame: &Frame) -> Option<Place> {
        let subscription = frame.header("subscription")?;
        let id = subscription.parse::<u64>().ok();
        match id.and_then(|id| self.subscribed.get(&id)) {
            Some(found) => Some(found.place.clone()),
            None => self.shared.names.place(subscription),
        }
    }

    fn heard(&mut self, mut frame: Frame) -> Result<(), String> {
        match frame.command.as_str() {
            "MESSAGE" => {
                let place = self.place(&frame);
                let text = |name: &str| frame.header(name).map(str::to_owned);
                let (sender, reply_to) = (text("mc_sender"), text("reply-to"));
                if frame.body.is_empty() {
                    let empty = Refused::Malformed("a message without a body".into());
                    self.shared.sink.put(Heard::Refused(empty));
                    return Ok(());
                }
                let mut packet =
                    Packet::new(PacketForm::Plain, std::mem::take(&mut frame.body), "");
                packet.sender = sender;
                packet.reply_to = reply_to;
                self.shared.sink.put(Heard::Packet(place, packet));
                Ok(())
            }
            "RECEIPT" => {
                if frame.header("receipt-id") == Some(READY) && !self.up {
                    self.is_up();
                }
                Ok(())
            }
            "ERROR" => Err(complaint(&frame)),
            _ => Ok(()),
        }
    }

    fn beat(&mut self) -> Result<(), String> {
        if let Some(limit) = self.hears
            && self.last_heard.elapsed() > limit
        {
            return Err(format!("nothing was received for {} s", limit.as_secs()));
        }
        if let Some(every) = self.sends
            && self.last_sent.elapsed() > every / 2
            && self.unwritten.is_empty()
        {
            self.unwritten.push(b'\n');
            return self.write();
        }
        Ok(())
    }

    /// Sends the queued messages before stopping.
    fn flush_remaining(&mut self, woken: &Woken) -> Result<(), String> {
        let end = Instant::now() + FLUSH_TIMEOUT;
        let mut said = false;
        while Instant::now() < end {
            self.fill()?;
            let empty = held(&self.shared.queue).items.is_empty();
            if !said && (empty || !self.up) {
                self.put(&Frame::new("DISCONNECT"))?;
                said = true;
            }
            self.write()?;
            if said && self.unwritten.is_empty() {
                return Ok(());
            }
            let pause = Duration::from_millis(50);
            woken.wait(Some((&self.stream, PollFlags::POLLOUT)), pause)?;
        }
        log::warn!("the broker did not accept the last messages in time");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heart_beats_are_as_slow_as_the_slower_side_wants() {
        let agreed = |text: &str| beats(&Frame::new("CONNECTED").with("heart-beat", text));
        assert_eq!(agreed("0,0"), (None, None));
        let seconds = Duration::from_secs;
        assert_eq!(
            agreed("30000,30000"),
            (Some(seconds(30)), Some(seconds(60)))
        );
        assert_eq!(agreed("100, 60000"), (Some(seconds(60)), Some(seconds(60))));
        assert_eq!(agreed("45000,0"), (None, Some(seconds(90))));
        assert_eq!(agreed("nonsense"), (None, None));
        assert_eq!(beats(&Frame::new("CONNECTED")), (None, None));
    }

    #[test]
    fn complaints_say_what_to_do() {
        let mut frame = Frame::new("ERROR").with("message", "not_found");
        frame.body = b"NOT_FOUND - no exchange 'x_broadcast' in vhost '/'\n".to_vec();
        let words = complaint(&frame);
        assert!(
            words.starts_with("not_found: NOT_FOUND - no exchange 'x_broadcast'"),
            "{words}"
        );
        assert!(words.contains("declare the exchanges"), "{words}");
        assert_eq!(complaint(&Frame::new("ERROR")), "it complains");
    }
}
