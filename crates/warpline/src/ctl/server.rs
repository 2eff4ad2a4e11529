//! The server: few connections at once, each for a short time, on a thread of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Router, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Sleep, sleep};
use warpline_io_error::plain;

use super::live::{Live, LiveChain};

/// Connections at once.
const CONNECTIONS_MAX: usize = 16;
/// A connection is closed after so long, whatever it does.
const CONNECTION_LASTS: Duration = Duration::from_secs(60);
/// How long a request waits for the result of a reload.
const RELOAD_PATIENCE: Duration = Duration::from_secs(50);

/// A socket that is served until this is dropped, which removes its file.
pub(crate) struct Server {
    path: PathBuf,
    /// Its end stops the server.
    _stop: oneshot::Sender<()>,
}

impl Server {
    /// Takes the socket; it is served from [`Server::serve`] on.
    ///
    /// # Errors
    /// Another process serves it, or the file system's.
    pub(crate) fn open(path: &Path) -> Result<StdListener, String> {
        let failed = |why: io::Error| format!("--socket {}: {}", path.display(), plain(&why));
        match fs::symlink_metadata(path) {
            Ok(_) if StdStream::connect(path).is_ok() => {
                return Err(format!("--socket {}: a running process has it", path.display()));
            }
            Ok(about) => {
                use std::os::unix::fs::FileTypeExt;
                if !about.file_type().is_socket() {
                    return Err(format!(
                        "--socket {}: there is a file that is no socket",
                        path.display()
                    ));
                }
                // Of a process that was killed.
                fs::remove_file(path).map_err(failed)?;
            }
            Err(_) => {}
        }
        // Nobody else reaches it before it has its mode.
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let mut folder = path.to_owned();
        folder.set_file_name(format!(".{}-{}", name.to_string_lossy(), std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let inside = folder.join("socket");
        let opened = (|| {
            let listener = StdListener::bind(&inside)?;
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            fs::rename(&inside, path)?;
            Ok(listener)
        })();
        let _ = fs::remove_dir_all(&folder);
        opened.map_err(failed)
    }

    /// Serves `listener`, whose file is `path`.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub(crate) fn serve(
        listener: StdListener,
        path: PathBuf,
        live: Arc<Live>,
    ) -> Result<Self, String> {
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async move {
                let Ok(listener) = UnixListener::from_std(listener) else { return };
                let limit = Arc::new(Semaphore::new(CONNECTIONS_MAX));
                let listener = Limited { listener, limit };
                tokio::select! {
                    _ = serve(listener, router(live)) => {}
                    // The end of the sender is an end, too.
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(Duration::from_millis(100));
        };
        // Nothing waits for its end: it may serve a slow client.
        let started = thread::Builder::new().name("ctl".into()).spawn(work);
        started.map_err(|why| format!("cannot spawn thread: {}", plain(&why)))?;
        Ok(Self { path, _stop: stop })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A listener with a limit of connections.
struct Limited {
    listener: UnixListener,
    limit: Arc<Semaphore>,
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok(permit) = Arc::clone(&self.limit).acquire_owned().await else { continue };
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let deadline = Box::pin(sleep(CONNECTION_LASTS));
                    return (Connection { stream, deadline, _permit: permit }, address);
                }
                // Out of file descriptors, say.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline.
struct Connection {
    stream: UnixStream,
    deadline: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        Future::poll(self.deadline.as_mut(), context).is_ready()
    }
}

impl AsyncRead for Connection {
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

impl AsyncWrite for Connection {
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

/// The keys of a request: `?chain=NAME`.
type Keys = Query<std::collections::BTreeMap<String, String>>;

fn router(live: Arc<Live>) -> Router {
    Router::new()
        .route("/v1/status", get(|live: State<Arc<Live>>, keys: Keys| async move {
            answer(live.status(chain(&keys)))
        }))
        .route("/v1/stats", get(|live: State<Arc<Live>>, keys: Keys| async move {
            answer(live.stats(chain(&keys)))
        }))
        .route("/v1/summary", get(|live: State<Arc<Live>>, keys: Keys| async move {
            live.summary(chain(&keys)).map_err(not_found)
        }))
        .route("/v1/functions", get(|live: State<Arc<Live>>, keys: Keys| async move {
            answer(live.part(chain(&keys), "functions"))
        }))
        .route("/v1/ports", get(|live: State<Arc<Live>>, keys: Keys| async move {
            answer(live.part(chain(&keys), "ports"))
        }))
        .route("/v1/stop", post(|live: State<Arc<Live>>, keys: Keys| async move {
            each(&live, &keys, "stopping", |chain| chain.control.stop())
        }))
        .route("/v1/pause", post(|live: State<Arc<Live>>, keys: Keys| async move {
            each(&live, &keys, "paused", |chain| chain.control.pause())
        }))
        .route("/v1/resume", post(|live: State<Arc<Live>>, keys: Keys| async move {
            each(&live, &keys, "resumed", |chain| chain.control.resume())
        }))
        .route("/v1/reload", post(|live: State<Arc<Live>>| async move { reload(&live).await }))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such path") })
        .with_state(live)
}

fn chain(keys: &Keys) -> Option<&str> {
    keys.get("chain").map(String::as_str)
}

fn answer(result: Result<Value, String>) -> Response {
    result.map_or_else(not_found, |value| Json(value).into_response())
}

fn not_found(why: String) -> Response {
    problem(StatusCode::NOT_FOUND, &why)
}

fn problem(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "error": why }))).into_response()
}

/// Does something to the chains that are meant.
fn each(live: &Live, keys: &Keys, done: &str, act: impl Fn(&LiveChain)) -> Response {
    answer(live.named(chain(keys)).map(|chains| {
        chains.iter().for_each(|chain| act(chain));
        let names: Vec<&str> = chains.iter().map(|chain| chain.name.as_str()).collect();
        json!({ "result": done, "chains": names })
    }))
}

/// Waits for a reload without keeping others waiting.
async fn reload(live: &Live) -> Response {
    let result = live.ask_reload();
    let started = tokio::time::Instant::now();
    loop {
        match result.try_recv() {
            Ok(Ok(text)) => return Json(json!({ "result": text })).into_response(),
            Ok(Err(why)) => return problem(StatusCode::CONFLICT, &why),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                return problem(StatusCode::CONFLICT, "the chains have ended");
            }
            Err(std::sync::mpsc::TryRecvError::Empty) if started.elapsed() > RELOAD_PATIENCE => {
                return problem(StatusCode::GATEWAY_TIMEOUT, "the reload takes longer");
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => sleep(Duration::from_millis(5)).await,
        }
    }
}
