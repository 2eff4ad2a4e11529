//! A listener with few connections at once, each for a short time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Connections at once.
const CONNECTIONS_MAX: usize = 16;
/// A connection is closed after so long, whatever it does.
const CONNECTION_LASTS: Duration = Duration::from_secs(60);

/// A listener with a limit of connections.
pub(crate) struct Limited<L> {
    listener: L,
    limit: Arc<Semaphore>,
}

impl<L> Limited<L> {
    /// Takes the connections of `listener`.
    pub(crate) fn new(listener: L) -> Self {
        Self { listener, limit: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }
}

impl<L: Listener> Listener for Limited<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Connection<L::Io>, L::Addr) {
        loop {
            let Ok(permit) = Arc::clone(&self.limit).acquire_owned().await else { continue };
            // It waits when the process is out of file descriptors.
            let (stream, address) = self.listener.accept().await;
            let deadline = Box::pin(sleep(CONNECTION_LASTS));
            let answer = Vec::new();
            return (Connection { stream, answer, deadline, _permit: permit }, address);
        }
    }

    fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}

/// An answer of the server to a request that it cannot read, with the body of other errors. It has
/// none of its own.
fn with_body(answer: &[u8]) -> Option<Vec<u8>> {
    let head = answer.strip_prefix(b"HTTP/1.1 4")?.strip_suffix(b"\r\n\r\n")?;
    let (status, fields) = str::from_utf8(head).ok()?.split_once("\r\n")?;
    let is_length = |field: &&str| field.eq_ignore_ascii_case("content-length: 0");
    fields.split("\r\n").find(is_length)?;
    let why = status.split_once(' ')?.1.to_ascii_lowercase();
    let body = json!({ "error": why }).to_string();
    let fields: String = fields
        .split("\r\n")
        .filter(|field| !is_length(field))
        .map(|field| format!("{field}\r\n"))
        .collect();
    let length = body.len();
    let own = format!("content-type: application/json\r\ncontent-length: {length}");
    Some(format!("HTTP/1.1 4{status}\r\n{fields}{own}\r\n\r\n{body}").into_bytes())
}

/// A connection with a deadline.
pub(crate) struct Connection<S> {
    stream: S,
    /// An answer that is not written yet, in place of the server's.
    answer: Vec<u8>,
    deadline: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> Connection<S> {
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        Future::poll(self.deadline.as_mut(), context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.is_over(context) {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Pin::new(&mut self.stream).poll_read(context, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let Self { stream, answer, .. } = &mut *self;
        if answer.is_empty() {
            let Some(with_body) = with_body(bytes) else {
                return Pin::new(stream).poll_write(context, bytes);
            };
            *answer = with_body;
        }
        while !answer.is_empty() {
            let written = ready!(Pin::new(&mut *stream).poll_write(context, answer))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            answer.drain(..written);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_unreadable_requests_get_a_body() {
        let answer = "HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\ndate: now\r\n\r\n";
        let reported =
            String::from_utf8(with_body(answer.as_bytes()).expect("a body")).expect("text");
        let expected = "HTTP/1.1 414 URI Too Long\r\ndate: now\r\ncontent-type: \
                        application/json\r\n\
            content-length: 24\r\n\r\n{\"error\":\"uri too long\"}";
        assert_eq!(reported, expected);
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            "{}",
        ] {
            assert_eq!(with_body(other.as_bytes()), None, "{other}");
        }
    }
}
