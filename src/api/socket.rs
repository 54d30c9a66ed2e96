//! `/ws`: the event bus over a WebSocket (reference `salt-api.md` 8).

use crate::answer::ApiError;
use crate::events::{Listener, Next};
use crate::limits::Place;
use crate::service::{Client, Handled, Reply, Service};
use crate::stream::Open;
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error as WsError, Message};

/// What a client says when it is ready to listen.
const READY: &str = "websocket client ready";
/// The answer to everything else that it says.
const RECEIVED: &str = "server received message";
/// Longest silence; then the client has to show that it is there.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a client may take to read what is there.
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest message of a client, in bytes.
const LARGEST: usize = 64 << 10;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

impl Service {
    /// Answers the request for one, and serves it from then on.
    pub(super) fn web_socket(
        self: &Arc<Self>,
        request: &mut Request<Incoming>,
        client: &Client,
    ) -> Handled {
        open(self, request, client)
    }
}

fn open(service: &Arc<Service>, request: &mut Request<Incoming>, client: &Client) -> Handled {
    client.may_listen()?;
    if request.uri().query().is_some() {
        return Err(ApiError::no_match());
    }
    let headers = request.headers();
    let has = |name, word: &str| {
        let values = headers.get_all(name).iter();
        let mut values = values.filter_map(|value: &HeaderValue| value.to_str().ok());
        values.any(|text| {
            text.split(',')
                .any(|one| one.trim().eq_ignore_ascii_case(word))
        })
    };
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
    let is_one = request.method() == Method::GET
        && request.version() >= Version::HTTP_11
        && has(UPGRADE, "websocket")
        && has(CONNECTION, "upgrade")
        && has(SEC_WEBSOCKET_VERSION, "13");
    let Some(key) = key.filter(|_| is_one) else {
        return Err(ApiError::bad("Not a WebSocket handshake of version 13"));
    };
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let accept = accept.map_err(|e| ApiError::unforeseen(&e.to_string()))?;
    let place = request.extensions().get::<Place>().cloned();
    let upgraded = hyper::upgrade::on(request);
    let (open, id) = (
        Open::new(service.clone()),
        client.id.clone().unwrap_or_default(),
    );
    tokio::spawn(async move {
        let _place = place;
        match upgraded.await {
            Ok(upgraded) => {
                let config = WebSocketConfig::default()
                    .max_message_size(Some(LARGEST))
                    .max_frame_size(Some(LARGEST));
                let io = TokioIo::new(upgraded);
                let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
                if let Err(e) = serve(socket, &open, &id).await {
                    log::debug!("api: a WebSocket ended: {e}");
                }
            }
            Err(e) => log::debug!("api: a WebSocket was not opened: {e}"),
        }
    });
    let mut response = Response::new(http_body_util::Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in [
        (SEC_WEBSOCKET_ACCEPT, accept),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("upgrade")),
    ] {
        response.headers_mut().insert(name, value);
    }
    Ok(Reply::Whole(response))
}

/// Until the client or its session ends, or it does not answer for half a minute.
async fn serve(mut socket: Socket, open: &Open, id: &str) -> Result<(), Ended> {
    let mut listener: Option<Listener> = None;
    let mut is_asked = false;
    loop {
        let next = async {
            match &mut listener {
                Some(listener) => listener.events().await,
                None => std::future::pending().await,
            }
        };
        let heard = tokio::select! {
            message = socket.next() => Heard::Message(message),
            next = next => Heard::Events(next),
            () = tokio::time::sleep(SILENCE) => Heard::Nothing,
        };
        // The session is a living one for as long as somebody listens.
        if open.service.sessions.get(id).is_none() {
            return socket.close(None).await.map_err(Ended::from);
        }
        let answers = match heard {
            Heard::Message(None) => return Ok(()),
            Heard::Message(Some(message)) => {
                is_asked = false;
                match message? {
                    Message::Text(text) if text.as_str() == READY => {
                        listener = Some(open.service.bus.listener(&[], None));
                        vec![Message::text(RECEIVED)]
                    }
                    Message::Text(_) => vec![Message::text(RECEIVED)],
                    Message::Close(_) => return Ok(()),
                    _ => continue,
                }
            }
            Heard::Events(next) => next
                .frames
                .iter()
                .filter_map(|one| message_of(one))
                .collect(),
            Heard::Nothing if is_asked => return Err(Ended::Silent),
            Heard::Nothing => {
                is_asked = true;
                vec![Message::Ping(Bytes::new())]
            }
        };
        let send = async {
            for answer in answers {
                socket.feed(answer).await?;
            }
            socket.flush().await
        };
        let sent = tokio::time::timeout(PATIENCE, send).await;
        sent.map_err(|_| Ended::Silent)??;
    }
}

/// Of an event that is one of server-sent events: what stock sends is its line with the data, and the empty one.
fn message_of(frame: &[u8]) -> Option<Message> {
    let line = frame.split(|b| *b == b'\n').nth(1)?;
    let line = std::str::from_utf8(line).ok()?;
    Some(Message::text(format!("{line}\n\n")))
}

/// Why one ends.
#[derive(Debug)]
enum Ended {
    Silent,
    Error(WsError),
}

impl From<WsError> for Ended {
    fn from(e: WsError) -> Ended {
        Ended::Error(e)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Ended::Silent => f.write_str("its client is silent"),
            Ended::Error(e) => e.fmt(f),
        }
    }
}

enum Heard {
    Message(Option<Result<Message, WsError>>),
    Events(Next),
    Nothing,
}
