//! The thread of a connection: tries one server after the other.

use super::packets::{Decoder, Frame};
use super::session::{Limits, Session, to_client_qos};
use super::{GOODBYE, MqttEvent, MqttSettings, Qos, Shared, held, size};
use bytes::{Buf, Bytes, BytesMut};
use halite_transport::attempts::{Attempts, Ended};
use halite_transport::stream::{CONNECTING, Stream, shorten_error};
use halite_transport::wake::{TICK, Woken};
use nix::poll::PollFlags;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, Connect, ConnectProperties, Disconnect, DisconnectReasonCode, LastWill,
    LastWillProperties, Login, Packet, PingReq, Publish,
};
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The default ports, without and with TLS.
const PORTS: [u16; 2] = [1883, 8883];
/// Bytes per read.
const PIECE: usize = 64 << 10;
/// Reads in a row before anything else gets its turn.
const PIECES: usize = 16;
/// Bytes that may be buffered for the socket. Beyond that, publications stay in the queue, and no more
/// acknowledgements are produced.
const UNWRITTEN: usize = 1 << 20;
/// Changed filters handled in one turn.
const CHANGES: usize = 1000;

/// Connects and reconnects until the connection is closed or dropped.
pub(super) fn run(shared: &Shared, woken: &Woken) {
    let servers = &shared.settings.servers;
    let mut attempts = Attempts::default();
    while !shared.is_over() {
        let given = attempts.server(servers);
        let server = address(given, shared.settings.tls);
        let end = session(shared, &server, woken);
        let mut state = held(&shared.state);
        (state.connected, state.up, state.busy) = (false, false, false);
        state.changed.clear();
        drop(state);
        shared
            .largest
            .store(shared.settings.max_packet, Ordering::Relaxed);
        if matches!(end, Ended::Closed) {
            return;
        }
        if let Some(words) = attempts.ended(&server, end) {
            shared.sink.state(MqttEvent::Down(words));
        }
        let pause = attempts.pause(servers.len());
        woken.pause(pause, &|| shared.is_over(), &|| shared.sink.tick());
    }
}

fn address(server: &str, tls: bool) -> String {
    match (server.contains("://"), tls) {
        (true, _) => server.to_owned(),
        (false, true) => format!("mqtts://{server}"),
        (false, false) => format!("mqtt://{server}"),
    }
}

impl Shared {
    /// Whether the thread must stop: it was asked to, and nothing is left to send or the time is up.
    fn is_over(&self) -> bool {
        let state = held(&self.state);
        let late = |end: Instant| state.lanes.is_empty() || Instant::now() >= end;
        state.ending.is_some_and(late)
    }

    /// Logs a filter that the broker rejects. A realm has thousands, and each new connection tries them again.
    fn deny(&self, filter: String, why: &str) {
        let count = self.denied.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            log::warn!("the broker rejects the subscription {filter:?}: {why} ({count} so far)");
        }
        self.sink.put(MqttEvent::Denied(filter, why.to_owned()));
    }

    /// Logs and counts a publication that the broker rejects.
    fn refuse(&self, publish: &Publish, why: &str) {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let topic = String::from_utf8_lossy(&publish.topic);
            log::warn!("the broker rejects a publication to {topic:?}: {why} ({count} so far)");
        }
    }
}

fn session(shared: &Shared, server: &str, woken: &Woken) -> Ended {
    let settings = &shared.settings;
    let security = settings.security();
    let port = PORTS[usize::from(settings.tls)];
    let mut stream = match Stream::connect(server, port, security.as_ref()) {
        Ok(stream) => stream,
        Err(e) => return Ended::Refused(shorten_error(e).to_string()),
    };
    let mut decoder = Decoder::new(settings.max_packet);
    let greeting = match handshake(&mut stream, &mut decoder, settings) {
        Ok(ack) => ack,
        Err(why) => return Ended::Refused(why),
    };
    if let Err(e) = stream.set_nonblocking() {
        return Ended::Refused(e.to_string());
    }
    let properties = greeting.properties.as_ref();
    let limits = Limits {
        flying: properties
            .and_then(|p| p.receive_max)
            .unwrap_or(u16::MAX)
            .max(1),
        qos: match properties.and_then(|p| p.max_qos) {
            Some(0) => Qos::Zero,
            Some(1) => Qos::One,
            _ => Qos::Two,
        },
    };
    // If the server disables keep-alives, ours do no harm.
    let keep_alive = properties.and_then(|p| p.server_keep_alive.filter(|s| *s > 0));
    let keep_alive = keep_alive.map_or(settings.keep_alive, |s| Duration::from_secs(s.into()));
    let takes = properties.and_then(|p| p.max_packet_size);
    let largest = takes.map_or(settings.max_packet, |bytes| {
        settings.max_packet.min(bytes as usize)
    });
    shared.largest.store(largest, Ordering::Relaxed);
    let mut state = held(&shared.state);
    state.connected = true;
    state.busy = true;
    state.changed = state.filters.keys().cloned().collect();
    drop(state);
    let now = Instant::now();
    let mut work = Work {
        shared,
        server,
        stream,
        decoder,
        session: Session::new(limits),
        largest,
        unwritten: BytesMut::new(),
        unread: false,
        up: false,
        keep_alive,
        last_sent: now,
        last_heard: now,
    };
    let end = work.run(woken);
    let up = work.up;
    work.requeue();
    match end {
        Ok(()) => Ended::Closed,
        Err(why) if up => Ended::Lost(why),
        Err(why) => Ended::Refused(why),
    }
}

/// Sends CONNECT and waits for the answer.
fn handshake(
    stream: &mut Stream,
    decoder: &mut Decoder,
    settings: &MqttSettings,
) -> Result<ConnAck, String> {
    let connect = Connect {
        keep_alive: u16::try_from(settings.keep_alive.as_secs()).unwrap_or(u16::MAX),
        client_id: settings.client_id.clone(),
        clean_start: true,
        properties: Some(ConnectProperties {
            max_packet_size: u32::try_from(settings.max_packet).ok(),
            ..ConnectProperties::new()
        }),
    };
    let will = settings.will.as_ref().map(|will| LastWill {
        topic: Bytes::copy_from_slice(will.topic.as_bytes()),
        message: Bytes::copy_from_slice(&will.payload),
        qos: to_client_qos(will.qos),
        retain: false,
        properties: (!will.properties.is_empty()).then(|| LastWillProperties {
            delay_interval: None,
            payload_format_indicator: None,
            message_expiry_interval: None,
            content_type: None,
            response_topic: None,
            correlation_data: None,
            user_properties: will.properties.clone(),
        }),
    });
    let login = (settings.user.is_some() || settings.password.is_some()).then(|| Login {
        username: settings.user.clone().unwrap_or_default(),
        password: settings.password.clone().unwrap_or_default(),
    });
    let mut out = BytesMut::new();
    Packet::Connect(connect, will, login)
        .write(&mut out, None)
        .map_err(|e| e.to_string())?;
    let gone = |why: &str| format!("{why}; perhaps {}", likely_cause(settings));
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => gone(&e.to_string()),
        _ => shorten_error(e).to_string(),
    };
    stream.write_all(&out).map_err(failed)?;
    let end = Instant::now() + CONNECTING;
    let mut piece = [0; 4096];
    while Instant::now() < end {
        let read = stream.read(&mut piece).map_err(failed)?;
        if read == 0 {
            return Err(gone("it closed the connection at once"));
        }
        decoder.push(&piece[..read]);
        if !decoder.may_be_connack() {
            return Err("it does not speak MQTT 5, or only over TLS".to_owned());
        }
        match decoder.next_frame()? {
            None => {}
            Some(Frame::Refused(why) | Frame::Goodbye(why)) => return Err(why),
            Some(Frame::Packet(packet)) => match *packet {
                Packet::ConnAck(ack) => return Ok(ack),
                _ => return Err("it does not answer as MQTT 5 requires".to_owned()),
            },
            Some(Frame::Ack(..)) => return Err("it does not answer as MQTT 5 requires".to_owned()),
        }
    }
    Err("it does not answer".to_owned())
}

/// The most likely cause if a server closes the connection without a reason.
fn likely_cause(settings: &MqttSettings) -> &'static str {
    match (settings.tls, settings.tls_cert.as_os_str().is_empty()) {
        (false, _) => "it only accepts TLS",
        (true, true) => "it requires a client certificate",
        (true, false) => "it rejects our certificate",
    }
}

struct Work<'a> {
    shared: &'a Shared,
    server: &'a str,
    stream: Stream,
    decoder: Decoder,
    session: Session,
    /// Size limit of packets to this server, in bytes.
    largest: usize,
    unwritten: BytesMut,
    /// Whether the last turn left data unread.
    unread: bool,
    up: bool,
    keep_alive: Duration,
    last_sent: Instant,
    last_heard: Instant,
}

impl Work<'_> {
    fn run(&mut self, woken: &Woken) -> Result<(), String> {
        // Data may have arrived together with the CONNACK.
        self.handle_frames()?;
        loop {
            if self.is_over() {
                self.disconnect(woken);
                return Ok(());
            }
            self.update_subscriptions()?;
            self.send_queued()?;
            self.write()?;
            self.update_status();
            let mut wants = PollFlags::empty();
            wants.set(PollFlags::POLLIN, self.may_answer());
            wants.set(PollFlags::POLLOUT, !self.unwritten.is_empty());
            let limit = if self.unread && self.may_answer() {
                Duration::ZERO
            } else {
                self.patience()
            };
            woken.wait(Some((&self.stream, wants)), limit)?;
            self.read()?;
            self.shared.sink.tick();
            self.check_keep_alive()?;
        }
    }

    /// Whether to stop: it was asked to, and everything is acknowledged or the time is up.
    fn is_over(&self) -> bool {
        let state = held(&self.shared.state);
        let said = state.lanes.is_empty() && self.session.flying() == 0;
        let said = said && self.unwritten.is_empty();
        let over = |end: Instant| said || Instant::now() >= end;
        state.ending.is_some_and(over)
    }

    /// How long to wait for events at most.
    fn patience(&self) -> Duration {
        let tick = TICK.min(self.keep_alive / 4);
        match held(&self.shared.state).ending {
            Some(end) => tick.min(end.saturating_duration_since(Instant::now())),
            None => tick,
        }
    }

    fn put(&mut self, packet: &Packet) -> Result<(), String> {
        let put = packet.write(&mut self.unwritten, None);
        put.map(drop).map_err(|e| e.to_string())
    }

    /// Updates the subscriptions to those requested.
    fn update_subscriptions(&mut self) -> Result<(), String> {
        if !self.session.may_ask() {
            return Ok(());
        }
        let mut changes = Vec::new();
        let mut state = held(&self.shared.state);
        while changes.len() < CHANGES
            && let Some(filter) = state.changed.pop_first()
        {
            state.busy = true;
            let want = state.filters.get(&filter).copied();
            changes.push((filter, want));
        }
        drop(state);
        for packet in self.session.change_filters(changes) {
            self.put(&packet)?;
        }
        Ok(())
    }

    /// Sends queued publications, as many as may be in flight.
    fn send_queued(&mut self) -> Result<(), String> {
        while self.unwritten.len() < UNWRITTEN {
            let mut state = held(&self.shared.state);
            let Some(next) = state.lanes.take(|lane| self.session.has_room(lane)) else {
                break;
            };
            state.busy = true;
            drop(state);
            if size(&next.publish) > self.largest {
                // It was queued before this server's limit was known.
                self.shared.refuse(&next.publish, "larger than it accepts");
                continue;
            }
            let packet = self.session.publish(next);
            self.put(&packet)?;
        }
        Ok(())
    }

    /// Reports the connection, and notes whether acknowledgements are outstanding.
    fn update_status(&mut self) {
        let waits = self.session.flying() > 0 || self.session.asked() > 0;
        let mut state = held(&self.shared.state);
        state.busy = waits || !self.unwritten.is_empty();
        if !self.up && self.session.asked() == 0 && state.changed.is_empty() {
            self.up = true;
            state.up = true;
            drop(state);
            self.shared
                .sink
                .state(MqttEvent::Up(self.server.to_owned()));
        }
    }

    fn write(&mut self) -> Result<(), String> {
        while !self.unwritten.is_empty() {
            match self.stream.write(&self.unwritten) {
                Ok(0) => return Err("it accepts no more data".to_owned()),
                Ok(count) => {
                    self.unwritten.advance(count);
                    self.last_sent = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(shorten_error(e).to_string()),
            }
        }
        Ok(())
    }

    /// Whether there is room for acknowledgements. Publications alone never fill the buffer: at most one more than
    /// fits is written.
    fn may_answer(&self) -> bool {
        self.unwritten.len() < UNWRITTEN + self.largest
    }

    fn read(&mut self) -> Result<(), String> {
        let mut piece = [0; PIECE];
        for _ in 0..PIECES {
            if !self.may_answer() {
                // Nothing is read from a peer that does not read our acknowledgements.
                break;
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => {
                    self.last_heard = Instant::now();
                    self.decoder.push(&piece[..count]);
                    self.handle_frames()?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.unread = false;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(shorten_error(e).to_string()),
            }
        }
        // A peer that sends without pause must not keep us from sending.
        self.unread = true;
        Ok(())
    }

    fn closed(&self) -> String {
        if self.shared.settings.client_id.is_empty() {
            "the server closed it".to_owned()
        } else {
            // Mosquitto closes the connection without a reason.
            "the server closed it; perhaps another client has the same client id".to_owned()
        }
    }

    /// Handles all complete frames.
    fn handle_frames(&mut self) -> Result<(), String> {
        while let Some(frame) = self.decoder.next_frame()? {
            let outcome = self.session.handle_frame(frame)?;
            if let Some(message) = outcome.message {
                self.shared.sink.put(MqttEvent::Message(message));
            }
            if let Some(answer) = outcome.answer {
                self.put(&answer)?;
            }
            for (filter, why) in outcome.denied {
                self.shared.deny(filter, why);
            }
            if let Some((publish, why)) = outcome.refused {
                self.shared.refuse(&publish, why);
            }
        }
        Ok(())
    }

    fn check_keep_alive(&mut self) -> Result<(), String> {
        let silent = self.last_heard.elapsed();
        if silent > self.keep_alive * 3 / 2 {
            let what = if self.may_answer() {
                "nothing was received"
            } else {
                "it read no answers"
            };
            return Err(format!("{what} for {} s", silent.as_secs()));
        }
        let quiet = self.keep_alive / 2;
        let idle = self.unwritten.is_empty() && self.last_sent.elapsed() >= quiet / 2;
        if idle && (silent >= quiet || self.last_sent.elapsed() >= quiet) {
            self.put(&Packet::PingReq(PingReq))?;
            return self.write();
        }
        Ok(())
    }

    /// Sends DISCONNECT, so that the will is not published, and waits until the server has read it.
    fn disconnect(&mut self, woken: &Woken) {
        let end = Instant::now() + GOODBYE / 2;
        let disconnect = Disconnect::new(DisconnectReasonCode::NormalDisconnection);
        if self.put(&Packet::Disconnect(disconnect)).is_err() {
            return;
        }
        let mut piece = [0; 4096];
        while Instant::now() < end {
            // Closing a socket with unread data can make the other side lose our last packets: read until it closes
            // the connection.
            match self.stream.read(&mut piece) {
                Ok(count) if count > 0 => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                _ => return,
            }
            if self.write().is_err() {
                return;
            }
            let mut wants = PollFlags::POLLIN;
            wants.set(PollFlags::POLLOUT, !self.unwritten.is_empty());
            let left = end.saturating_duration_since(Instant::now());
            if woken.wait(Some((&self.stream, wants)), left).is_err() {
                return;
            }
        }
    }

    /// Puts unacknowledged publications back into the queue.
    fn requeue(self) {
        let mut state = held(&self.shared.state);
        for waiting in self.session.unacknowledged().into_iter().rev() {
            state.lanes.requeue(waiting);
        }
    }
}
