mod framed;

use super::*;
use crate::sockets::KeepAlive;
use halite_wire::zmtp::{self, Command};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A hang is a failure, but never a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

fn server<C: SubscriberCodec>(options: PublishOptions) -> PublishServer<C> {
    PublishServer::bind("127.0.0.1", 0, options).unwrap()
}

/// Serves until `done` says so.
fn drive<C: SubscriberCodec>(
    server: &mut PublishServer<C>,
    what: &str,
    mut done: impl FnMut(&PublishServer<C>) -> bool,
) {
    let end = Instant::now() + LIMIT;
    while !done(server) {
        assert!(Instant::now() < end, "{what}: {:?}", server.counters());
        server.turn(Instant::now()).unwrap();
        let epoll: BorrowedFd = server.cx.epoll.0.as_fd();
        let mut fds = [PollFd::new(epoll, PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(5u8)).unwrap();
    }
}

fn subscriptions<C: SubscriberCodec>(server: &PublishServer<C>) -> usize {
    server.subscribers.values().map(|s| s.topic_count()).sum()
}

/// A subscriber of libzmq in a thread of its own; tells each message that it gets.
fn zmq_subscriber(
    server: &PublishServer,
    topics: &[&str],
    heartbeat: i32,
    count: usize,
) -> (Receiver<Vec<Vec<u8>>>, JoinHandle<()>) {
    let (tell, told) = channel();
    let url = format!("tcp://{}", server.address().unwrap());
    let topics: Vec<Vec<u8>> = topics.iter().map(|t| t.as_bytes().to_vec()).collect();
    let thread = std::thread::spawn(move || {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::SUB).unwrap();
        socket.set_rcvhwm(0).unwrap();
        socket.set_rcvtimeo(60_000).unwrap();
        socket.set_heartbeat_ivl(heartbeat).unwrap();
        socket.set_ipv6(true).unwrap();
        for topic in &topics {
            socket.set_subscribe(topic).unwrap();
        }
        socket.connect(&url).unwrap();
        for _ in 0..count {
            tell.send(socket.recv_multipart(0).unwrap()).unwrap();
        }
    });
    (told, thread)
}

/// A handmade subscriber, which reads only when the test does.
fn raw_subscriber(server: &mut PublishServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    setsockopt(&stream, sockopt::RcvBuf, &4096).unwrap();
    let before = subscriptions(server);
    subscribe(&mut stream, b"");
    drive(server, "a subscription", |s| subscriptions(s) > before);
    greeted(&mut stream);
    stream
}

/// Sends everything that a subscriber to `topic` sends.
fn subscribe(stream: &mut TcpStream, topic: &[u8]) {
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    greeting.extend_from_slice(b"NULL");
    greeting.resize(64, 0);
    stream.write_all(&greeting).unwrap();
    let ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB";
    stream.write_all(ready).unwrap();
    let length = u8::try_from(topic.len() + 1).unwrap();
    stream.write_all(&[0, length, 1]).unwrap();
    stream.write_all(topic).unwrap();
}

/// Takes the words of the server.
fn greeted(stream: &mut TcpStream) {
    let mut hello = vec![0; zmtp::hello().len()];
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(hello, zmtp::hello());
}

#[test]
fn who_is_connected_misses_nothing_while_its_subscription_is_under_way() {
    let mut server = server(PublishOptions::default());
    let _settled = raw_subscriber(&mut server);
    let connect = |server: &mut PublishServer| {
        let before = server.waiting().0;
        let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
        drive(server, "a connection", |s| s.waiting().0 > before);
        greeted(&mut stream);
        stream
    };
    let mut expected = Vec::new();
    server.publish(&[], b"a, before it came");
    let mut early = connect(&mut server);
    let topics = [b"b".to_vec(), b"ab".to_vec()];
    server.publish(&[], b"a1");
    server.publish(&[], b"b1");
    server.publish(&topics, b"2");
    server.mark();
    server.publish_to_marked(&[], b"a, of another kind");
    let mut later = connect(&mut server);
    server.publish(&topics, b"3");
    for stream in [&mut later, &mut early] {
        let before = subscriptions(&server);
        subscribe(stream, b"a");
        drive(&mut server, "a subscription", |s| subscriptions(s) > before);
    }
    server.publish(&[], b"a4");
    drive(&mut server, "all is sent", |s| s.waiting().1 == 0);
    for (topic, message) in [("", "a1"), ("ab", "2"), ("ab", "3"), ("", "a4")] {
        if !topic.is_empty() {
            expected.extend(zmtp::part(topic.as_bytes(), true));
        }
        expected.extend(zmtp::part(message.as_bytes(), false));
    }
    let mut heard = vec![0; expected.len()];
    early.read_exact(&mut heard).unwrap();
    assert_eq!(heard, expected);
    let first = zmtp::part(b"a1", false).len();
    let rest = first + zmtp::part(b"ab", true).len() + zmtp::part(b"2", false).len();
    let mut heard = vec![0; expected.len() - rest];
    later.read_exact(&mut heard).unwrap();
    assert_eq!(heard, expected[rest..]);
    for mut stream in [early, later] {
        stream.set_nonblocking(true).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "no more than that");
    }
}

#[test]
fn one_that_stops_reading_loses_its_own_publications_only() {
    const COUNT: usize = 5000;
    const STEP: usize = 50;
    let mut server = server(PublishOptions {
        queue: 100,
        ..PublishOptions::default()
    });
    let stuck = raw_subscriber(&mut server);
    let good: Vec<_> = (0..2)
        .map(|_| zmq_subscriber(&server, &[""], 0, COUNT + 1))
        .collect();
    drive(&mut server, "three subscribers", |s| subscriptions(s) == 3);
    let mut heard = vec![Vec::new(); good.len()];
    for n in 0..COUNT {
        // More in all than the kernel holds for one connection.
        let mut message = n.to_be_bytes().to_vec();
        message.resize(4096, 7);
        server.publish(&[], &message);
        if n % STEP == STEP - 1 {
            drive(&mut server, "the good ones have all", |_| {
                for (all, (told, _)) in heard.iter_mut().zip(&good) {
                    all.extend(told.try_iter());
                }
                heard.iter().all(|all| all.len() == n + 1)
            });
        }
    }
    for all in &heard {
        for (n, message) in all.iter().enumerate() {
            assert_eq!((message.len(), message[0].len()), (1, 4096));
            assert_eq!(message[0][..8], n.to_be_bytes());
        }
    }
    let counters = server.counters();
    let (connected, waiting) = server.waiting();
    assert_eq!((connected, waiting), (3, 100));
    assert!(counters.slow > 0 && counters.gone == 0, "{counters:?}");
    // Each publication was sent, waits or is counted as lost, three times.
    let all = counters.copies + counters.slow + waiting as u64;
    assert_eq!(all, 3 * COUNT as u64, "{counters:?}");
    let peer = stuck.local_addr().unwrap();
    assert_eq!(server.lossy(), [(peer, counters.slow)]);
    // Nothing moves for a minute: it is let go, and what waited for it is counted as well.
    server
        .turn(Instant::now() + Duration::from_secs(61))
        .unwrap();
    let after = server.counters();
    assert_eq!((after.ended, after.gone), (1, 100));
    assert_eq!(server.waiting(), (2, 0));
    server.publish(&[], b"end");
    server.finish(LIMIT).unwrap();
    for (told, thread) in good {
        assert_eq!(told.recv_timeout(LIMIT).unwrap(), [b"end"]);
        thread.join().unwrap();
    }
}

#[test]
fn who_comes_after_a_mark_is_left_out() {
    let mut server = server(PublishOptions::default());
    let (early, one) = zmq_subscriber(&server, &["a"], 0, 4);
    drive(&mut server, "the first", |s| subscriptions(s) == 1);
    server.mark();
    let (late, two) = zmq_subscriber(&server, &["a"], 0, 1);
    drive(&mut server, "the second", |s| subscriptions(s) == 2);
    server.publish_to_marked(&[], b"a1");
    server.publish_to_marked(&[b"a".to_vec()], b"2");
    server.publish_to_marked(&[], b"a4");
    server.mark();
    server.publish_to_marked(&[], b"a3");
    let (mut first, mut second) = (Vec::new(), Vec::new());
    drive(&mut server, "messages", |_| {
        first.extend(early.try_iter());
        second.extend(late.try_iter());
        first.len() == 4 && second.len() == 1
    });
    assert_eq!(second, [[b"a3".to_vec()]]);
    one.join().unwrap();
    two.join().unwrap();
}

#[test]
fn topics_reach_those_who_want_them() {
    let mut server = server(PublishOptions::default());
    let (told, one) = zmq_subscriber(&server, &["broadcast", "one"], 0, 2);
    let (others, two) = zmq_subscriber(&server, &["broadcast", "two"], 0, 2);
    drive(&mut server, "subscriptions", |s| subscriptions(s) == 4);
    server.publish(&[b"one".to_vec()], b"first");
    server.publish(&[b"nobody".to_vec()], b"nothing");
    server.publish(&[b"one".to_vec(), b"two".to_vec()], b"second");
    server.publish(&[b"broadcast".to_vec()], b"third");
    let mut heard: BTreeMap<u8, Vec<Vec<Vec<u8>>>> = BTreeMap::new();
    drive(&mut server, "messages", |_| {
        heard.entry(1).or_default().extend(told.try_iter());
        heard.entry(2).or_default().extend(others.try_iter());
        heard.values().all(|all| all.len() == 2)
    });
    let message =
        |topic: &str, body: &str| vec![topic.as_bytes().to_vec(), body.as_bytes().to_vec()];
    assert_eq!(
        heard[&1],
        [message("one", "first"), message("one", "second")]
    );
    assert_eq!(
        heard[&2],
        [message("two", "second"), message("broadcast", "third")]
    );
    one.join().unwrap();
    two.join().unwrap();
    drive(&mut server, "nobody is left", |s| s.waiting().0 == 0);
    assert!(server.topics.is_empty());
    assert_eq!(server.counters().gone, 0);
}

#[test]
fn large_messages_arrive_whole_and_the_end_waits_for_them() {
    let mut server = server(PublishOptions::default());
    let (told, thread) = zmq_subscriber(&server, &[""], 0, 3);
    drive(&mut server, "a subscription", |s| subscriptions(s) == 1);
    let large: Vec<u8> = (0..20_000_000u32).map(|n| n as u8).collect();
    for message in [&large[..255], &large[..256], &large] {
        server.publish(&[], message);
    }
    server.finish(LIMIT).unwrap();
    assert_eq!(server.counters().copies, 3);
    for expected in [&large[..255], &large[..256], &large] {
        let message = told.recv_timeout(LIMIT).unwrap();
        assert!(message.len() == 1 && message[0] == expected);
    }
    thread.join().unwrap();
}

#[test]
fn heartbeats_tell_the_living_from_the_dead() {
    let seconds = Duration::from_secs;
    let mut server = server(PublishOptions {
        heartbeat: Some((seconds(10), seconds(30))),
        ..PublishOptions::default()
    });
    let mut silent = raw_subscriber(&mut server);
    let (told, living) = zmq_subscriber(&server, &[""], 50, 1);
    drive(&mut server, "two subscribers", |s| subscriptions(s) == 2);
    let asked = |s: &PublishServer| s.subscribers.values().filter(|s| s.is_pinged()).count();
    let later = Instant::now() + seconds(11);
    server.turn(later).unwrap();
    assert_eq!(asked(&server), 2);
    drive(&mut server, "libzmq answers", |s| asked(s) == 1);
    let mut ping = [0; 9];
    silent.read_exact(&mut ping).unwrap();
    assert_eq!(ping, *zmtp::ping());
    // It has been silent for longer than it may be, counted from the question.
    let peer = silent.local_addr().unwrap();
    server.turn(later + seconds(30)).unwrap();
    assert_eq!(server.counters().ended, 1);
    assert!(server.subscribers.values().all(|s| s.peer != peer));
    // Questions of its own are answered.
    let mut asking = raw_subscriber(&mut server);
    asking.write_all(b"\x04\x0a\x04PING\x00\x00abc").unwrap();
    let mut pong = [0; 10];
    asking.set_nonblocking(true).unwrap();
    drive(&mut server, "an answer", |_| {
        asking.peek(&mut pong).is_ok_and(|n| n == pong.len())
    });
    assert_eq!(pong, *zmtp::pong(b"abc"));
    server.publish(&[], b"end");
    drive(&mut server, "the end", |_| told.try_recv().is_ok());
    living.join().unwrap();
}

#[test]
fn whoever_is_no_subscriber_is_cut_off() {
    let mut server = server(PublishOptions::default());
    let mut browser = TcpStream::connect(server.address().unwrap()).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mute = TcpStream::connect(server.address().unwrap()).unwrap();
    drive(&mut server, "the browser is gone", |s| {
        s.counters().refused == 1 && s.waiting().0 == 1
    });
    let now = Instant::now();
    server.turn(now + Duration::from_secs(31)).unwrap();
    assert_eq!(server.waiting().0, 0);
    drop(mute);
    // More subscriptions than any minion has.
    let mut greedy = raw_subscriber(&mut server);
    for n in 0..16u8 {
        greedy.write_all(&[0, 2, 1, n]).unwrap();
    }
    drive(&mut server, "the greedy one is gone", |s| {
        s.counters().refused == 2 && s.waiting().0 == 0
    });
    assert!(server.topics.is_empty());
    // A topic longer than any minion's.
    let mut wordy = raw_subscriber(&mut server);
    let topic = [&[0, 130, 1][..], &[b'x'; 129]].concat();
    wordy.write_all(&topic).unwrap();
    drive(&mut server, "the wordy one is gone", |s| {
        s.counters().refused == 3 && s.waiting().0 == 0
    });
    assert!(server.topics.is_empty());
}

#[test]
fn words_wait_only_so_long_as_they_are_few() {
    let mut server = server(PublishOptions::default());
    let mut stream = raw_subscriber(&mut server);
    let (token, subscriber) = server.subscribers.iter_mut().next().unwrap();
    let (token, now) = (*token, Instant::now());
    let mut heard = Vec::new();
    let mut listener = zmtp::SubscriberDecoder::default();
    for _ in 0..100 {
        subscriber.push_control(zmtp::pong(b"x"), now);
    }
    server.enlist(token);
    server.turn(now).unwrap();
    drop(server);
    stream.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, zmtp::pong(b"x").repeat(4));
    // A publisher's handshake is not a subscriber's.
    let fault = listener.decode(&zmtp::hello(), |command| {
        assert_ne!(command, Command::Ready)
    });
    assert_eq!(fault, Err(zmtp::ZmtpError::Socket));
}

/// An address to listen at: of IPv6, where this host has it.
fn loopback() -> &'static str {
    match TcpListener::bind("[::1]:0") {
        Ok(_) => "::1",
        Err(_) => "127.0.0.1",
    }
}

#[test]
fn subscribers_come_back_by_themselves_and_are_probed() {
    let options = PublishOptions {
        ipv6: true,
        keepalive: KeepAlive {
            on: true,
            idle: 77,
            count: 5,
            interval: 9,
        },
        ..PublishOptions::default()
    };
    let mut first = PublishServer::bind(loopback(), 0, options).unwrap();
    let port = first.address().unwrap().port();
    let (told, thread) = zmq_subscriber(&first, &["a", "b"], 0, 2);
    drive(&mut first, "subscriptions", |s| subscriptions(s) == 2);
    let stream = &first.subscribers.values().next().unwrap().stream;
    use nix::sys::socket::getsockopt;
    assert!(getsockopt(stream, sockopt::KeepAlive).unwrap());
    assert!(getsockopt(stream, sockopt::TcpNoDelay).unwrap());
    assert_eq!(getsockopt(stream, sockopt::TcpKeepIdle), Ok(77));
    assert_eq!(getsockopt(stream, sockopt::TcpKeepCount), Ok(5));
    assert_eq!(getsockopt(stream, sockopt::TcpKeepInterval), Ok(9));
    first.publish(&[], b"a1");
    first.finish(LIMIT).unwrap();
    assert_eq!(told.recv_timeout(LIMIT).unwrap(), [b"a1"]);
    // The same port again, although the end of the first connection is not long ago.
    drop(first);
    let mut second: PublishServer = PublishServer::bind(loopback(), port, options).unwrap();
    drive(&mut second, "it is back", |s| subscriptions(s) == 2);
    second.publish(&[], b"b2");
    second.finish(LIMIT).unwrap();
    assert_eq!(told.recv_timeout(LIMIT).unwrap(), [b"b2"]);
    thread.join().unwrap();
}

/// Another protocol: lines. Subscribers say `+topic`, `-topic` and `?`; parts of a publication end with a tab.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    is_open: bool,
}

impl SubscriberCodec for Lines {
    type Error = &'static str;

    const TOPICS: bool = true;

    fn decode(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(SubscriberMessage),
    ) -> Result<(), &'static str> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let text = line[1..end.max(1)].to_vec();
            take(match line[0] {
                b'+' => SubscriberMessage::Subscribe(text),
                b'-' => SubscriberMessage::Cancel(text),
                b'?' => SubscriberMessage::Answer([b"!", &text[..], b"\n"].concat()),
                _ => return Err("that is not a line of ours"),
            });
            self.is_open = true;
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn frame(body: &[u8], more: bool) -> Vec<u8> {
        let end = if more { b'\t' } else { b'\n' };
        [body, &[end]].concat()
    }

    fn ping() -> Option<Vec<u8>> {
        Some(b"?\n".to_vec())
    }
}

#[test]
fn the_server_speaks_what_its_codec_speaks() {
    let mut server = server::<Lines>(PublishOptions::default());
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"+a\n+ab").unwrap();
    drive(&mut server, "a subscription", |s| subscriptions(s) == 1);
    stream.write_all(b"c\n?x\n").unwrap();
    drive(&mut server, "another", |s| subscriptions(s) == 2);
    server.publish(&[], b"apple");
    server.publish(&[], b"pear");
    server.publish(&[b"abc".to_vec(), b"b".to_vec()], b"plum");
    drive(&mut server, "all is sent", |s| s.counters().copies == 2);
    let expected = b"!x\napple\nabc\tplum\n";
    let mut heard = vec![0; expected.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, expected);
    stream.write_all(b"-a\nhello\n").unwrap();
    drive(&mut server, "a fault", |s| s.counters().refused == 1);
    assert_eq!(server.waiting(), (0, 0));
}
