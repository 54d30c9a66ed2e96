//! Requests over ZeroMQ: a ROUTER socket for peers with REQ sockets, such as Salt's minions and clients.

use super::{Incoming, Received, RequestFront};
use crate::poll::Source;
use crate::sockets::{
    Context, KeepAlive, Message, Result, bind, next_messages, send_moved, send_parts,
};
use std::io;

/// Parts of a request.
const PARTS: usize = 3;

/// Options of a [`ZeroMqFront`].
#[derive(Clone, Copy, Debug)]
pub struct ZeroMqOptions {
    /// Backlog of connections not yet accepted.
    pub backlog: i32,
    /// Largest message; a larger one closes its connection.
    pub max_message: i64,
    /// Whether IPv6 addresses may be used.
    pub ipv6: bool,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
}

/// A ROUTER socket.
pub struct ZeroMqFront(zmq::Socket);

impl ZeroMqFront {
    /// Creates a socket that is not bound yet.
    ///
    /// # Errors
    /// No sockets are left, or an option is invalid.
    pub fn new(context: &Context, options: &ZeroMqOptions) -> Result<ZeroMqFront> {
        let socket = context.socket(zmq::ROUTER)?;
        socket.set_linger(1000)?;
        socket.set_router_handover(true)?;
        // Without this, undeliverable messages are dropped silently.
        socket.set_router_mandatory(true)?;
        socket.set_backlog(options.backlog)?;
        socket.set_maxmsgsize(options.max_message)?;
        // A client has one request in flight; a few more are tolerated, thousands are an attack.
        socket.set_rcvhwm(16)?;
        socket.set_ipv6(options.ipv6)?;
        options.keepalive.apply(&socket)?;
        Ok(ZeroMqFront(socket))
    }

    /// Binds.
    ///
    /// # Errors
    /// The address cannot be bound; the message has the reason and a remedy.
    pub fn bind(&self, url: &str) -> io::Result<()> {
        bind(&self.0, url)
    }
}

impl RequestFront for ZeroMqFront {
    fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    fn receive(&mut self) -> io::Result<Received> {
        let broken = |e| io::Error::other(format!("ZeroMQ: {e}"));
        let Some(parts) = next_messages(&self.0, PARTS).map_err(broken)? else {
            return Ok(Received::Nothing);
        };
        // A request is [identity][empty][body]; anything else did not come from a REQ socket.
        Ok(match <[Message; PARTS]>::try_from(parts) {
            Ok([identity, empty, mut body]) if empty.is_empty() => Received::Request(Incoming {
                from: identity.to_vec(),
                peer: body.peer_address().to_owned(),
                body,
            }),
            _ => Received::Malformed,
        })
    }

    fn answer(&mut self, from: &[u8], body: Message) -> io::Result<()> {
        send_parts(&self.0, &[from, b""], zmq::DONTWAIT | zmq::SNDMORE)
            .and_then(|()| send_moved(&self.0, body.into_inner(), zmq::DONTWAIT))
            .map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poller;
    use crate::sockets::{ReqOptions, ReqSocket};
    use std::time::Duration;

    fn front(context: &Context) -> (ZeroMqFront, String) {
        let options = ZeroMqOptions {
            backlog: 10,
            max_message: 1000,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
        };
        let front = ZeroMqFront::new(context, &options).unwrap();
        front.bind("tcp://127.0.0.1:*").unwrap();
        let url = front.0.get_last_endpoint().unwrap().unwrap();
        (front, url)
    }

    fn next(front: &mut ZeroMqFront) -> Received {
        let mut poller = Poller::new();
        poller.add(front.source());
        poller.wait(Some(Duration::from_secs(60))).unwrap();
        front.receive().unwrap()
    }

    #[test]
    fn a_request_is_answered_to_the_one_who_asked() {
        let context = Context::new();
        let (mut front, url) = front(&context);
        assert!(matches!(front.receive().unwrap(), Received::Nothing));
        let options = ReqOptions {
            keepalive: KeepAlive::REQUEST_SERVER,
            ipv6: false,
            max_answer: None,
        };
        let clients = ["one", "two"].map(|question| {
            let client = ReqSocket::connect(&context, &url, &options).unwrap();
            client.send(question.as_bytes()).unwrap();
            client
        });
        for _ in &clients {
            let Received::Request(request) = next(&mut front) else {
                panic!("no request");
            };
            assert_eq!(request.peer, "127.0.0.1");
            let answer = [b"answer to ", &*request.body].concat();
            front.answer(&request.from, answer.into()).unwrap();
        }
        let answers = clients.map(|client| client.receive().unwrap());
        assert_eq!(answers, [b"answer to one", b"answer to two"]);
        let gone = front.answer(b"nobody", b"answer".to_vec().into());
        assert!(gone.is_err());
    }

    #[test]
    fn what_no_client_sends_is_malformed() {
        let context = Context::new();
        let (mut front, url) = front(&context);
        let dealer = context.socket(zmq::DEALER).unwrap();
        dealer.connect(&url).unwrap();
        for parts in [
            &["body"][..],
            &["", "body", "more"],
            &["", "body", "more", "and more", "and more"],
            &["not empty", "body"],
        ] {
            dealer.send_multipart(parts, 0).unwrap();
            assert!(matches!(next(&mut front), Received::Malformed), "{parts:?}");
        }
        dealer.send_multipart(["", "body"], 0).unwrap();
        assert!(matches!(next(&mut front), Received::Request(_)));
    }
}
