//! A listener with few connections at once, each for a short time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
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
            return (Connection { stream, deadline, _permit: permit }, address);
        }
    }

    fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline.
pub(crate) struct Connection<S> {
    stream: S,
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
        match self.is_over(context) {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
