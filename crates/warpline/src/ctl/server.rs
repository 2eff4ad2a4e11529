//! The server: few connections at once, each for a short time, on a thread of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Router, serve};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use warpline_engine::MachineChain;
use warpline_io_error::plain;
use warpline_native::packet_filter::PacketFilter;

use super::limited::Limited;
use super::live::Live;
use super::traced::{COUNTS, SECONDS, TraceRequest};
use crate::moves::Move;
use crate::reload::Reloaded;

/// How long a request waits for the result of a reload or a move.
const PATIENCE: Duration = Duration::from_secs(50);

/// Packets of a trace, and the seconds that it waits for them, unless a request names others.
const COUNT: u64 = 10;
const TRACE_SECONDS: u64 = 10;

/// Bytes of its filter: libpcap takes seconds for tens of thousands.
const FILTER_LEN_MAX: usize = 4096;

/// A socket, whose file is removed when this is dropped.
pub(crate) struct Socket {
    listener: StdListener,
    file: SocketFile,
}

struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    id: Option<(u64, u64)>,
}

impl SocketFile {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), id: id_of(path) }
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Its name may stand for that of another process by now.
        if self.id.is_some() && id_of(&self.path) == self.id {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket that is served until this is dropped.
pub(crate) struct Server {
    _file: SocketFile,
    /// Its end stops the server.
    _stop: oneshot::Sender<()>,
}

impl Socket {
    /// Makes the file at `path`.
    ///
    /// # Errors
    /// Another process serves it, or the file system's.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let named = |why: String| format!("--socket {}: {why}", path.display());
        make_way(path).map_err(named)?;
        let listener = bind(path).map_err(|why| named(plain(&why)))?;
        Ok(Self { listener, file: SocketFile::new(path) })
    }

    /// Makes another user the owner of its file.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn give_to(&self, (user, group): (u32, u32)) -> Result<(), String> {
        let given = chown(&self.file.path, Some(user), Some(group));
        given.map_err(|why| format!("--socket {}: {}", self.file.path.display(), plain(&why)))
    }

    /// Serves it, on a thread that nothing waits for: it may serve a slow client at the end.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub(crate) fn serve(self, live: Arc<Live>) -> Result<Server, String> {
        let Self { listener, file } = self;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(answer_all(listener, live, stopped));
            runtime.shutdown_timeout(Duration::from_millis(100));
        };
        let started = thread::Builder::new().name("ctl".into()).spawn(work);
        started.map_err(|why| format!("cannot spawn thread: {}", plain(&why)))?;
        Ok(Server { _file: file, _stop: stop })
    }
}

/// Answers requests until `stopped` ends.
async fn answer_all(listener: StdListener, live: Arc<Live>, stopped: oneshot::Receiver<()>) {
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    tokio::select! {
        _ = serve(Limited::new(listener), router(live)) => {}
        _ = stopped => {}
    }
}

/// Removes the file of a process that was killed.
fn make_way(path: &Path) -> Result<(), String> {
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
    if StdStream::connect(path).is_ok() {
        return Err("a running process has it".into());
    }
    if !about.file_type().is_socket() {
        return Err("there is a file that is no socket".into());
    }
    fs::remove_file(path).map_err(|why| plain(&why))
}

/// Binds a socket with mode 0600. It is made in a folder that only its owner can enter, so that
/// no other user reaches it before it has its mode.
fn bind(path: &Path) -> io::Result<StdListener> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = format!(".{}-{}", name.to_string_lossy(), std::process::id());
    let folder = path.with_file_name(folder);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let bound = bind_in(&folder, path);
    let _ = fs::remove_dir_all(&folder);
    bound
}

fn bind_in(folder: &Path, path: &Path) -> io::Result<StdListener> {
    let socket = folder.join("socket");
    let listener = StdListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    fs::rename(&socket, path)?;
    Ok(listener)
}

/// The keys of a request: `?chain=NAME`.
struct Keys(BTreeMap<String, String>);

impl<S: Sync> FromRequestParts<S> for Keys {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let bad = |why: String| problem(StatusCode::BAD_REQUEST, &why);
        let given = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(given) = given.map_err(|why| bad(why.body_text()))?;
        let mut keys = Self(BTreeMap::new());
        for (key, value) in given {
            if keys.0.insert(key.clone(), value).is_some() {
                return Err(bad(format!("`{key}` is given twice")));
            }
        }
        let known = keys_of(parts.uri.path());
        match keys.0.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) if known.is_empty() => {
                Err(bad(format!("this request takes no keys, but has `{key}`")))
            }
            Some(key) => Err(bad(format!("there is no key `{key}`; keys: {}", known.join(", ")))),
            None => Ok(keys),
        }
    }
}

/// The keys that requests for `path` take.
fn keys_of(path: &str) -> &'static [&'static str] {
    match path {
        "/v1/place" => &["chain", "function", "device"],
        "/v1/policy" => &["policy"],
        "/v1/reload" => &[],
        "/v1/trace" => &["chain", "filter", "count", "seconds", "form"],
        _ => &["chain"],
    }
}

pub(super) fn router(live: Arc<Live>) -> Router {
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
        .route("/v1/trace", get(|live: State<Arc<Live>>, keys: Keys| async move {
            trace(&live, &keys).await
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
        .route("/v1/reload", post(|live: State<Arc<Live>>, _: Keys| async move {
            let of = |Reloaded { text, restart }| json!({ "result": text, "restart": restart });
            result(live.ask_reload(), "the reload", of).await
        }))
        .route("/v1/place", post(|live: State<Arc<Live>>, keys: Keys| async move {
            place(&live, keys).await
        }))
        .route("/v1/policy", post(|live: State<Arc<Live>>, keys: Keys| async move {
            match key(&keys, "policy") {
                Ok(policy) => result(live.ask_move(Move::Policy(policy)), "the move", moved).await,
                Err(why) => problem(StatusCode::BAD_REQUEST, &why),
            }
        }))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "this path takes another method")
        })
        .with_state(live)
}

fn chain(keys: &Keys) -> Option<&str> {
    keys.0.get("chain").map(String::as_str)
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
fn each(live: &Live, keys: &Keys, done: &str, act: impl Fn(&MachineChain)) -> Response {
    answer(live.named(chain(keys)).map(|chains| {
        chains.iter().for_each(|chain| act(chain));
        let names: Vec<&str> = chains.iter().map(|chain| chain.name.as_str()).collect();
        json!({ "result": done, "chains": names })
    }))
}

/// The value of a key that a request must have.
fn key(keys: &Keys, name: &str) -> Result<String, String> {
    let value = keys.0.get(name).filter(|value| !value.is_empty()).cloned();
    value.ok_or_else(|| format!("it requires `{name}`"))
}

/// The number of a key that a request may have.
fn number(
    keys: &Keys,
    name: &str,
    default: u64,
    within: RangeInclusive<u64>,
) -> Result<u64, String> {
    let Some(text) = keys.0.get(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| within.contains(number));
    number.ok_or_else(|| {
        format!("`{name}` must be {} to {}, found {text:?}", within.start(), within.end())
    })
}

/// Traces packets of the chains that are meant.
async fn trace(live: &Live, keys: &Keys) -> Response {
    let chains = match live.named(chain(keys)) {
        Ok(chains) => chains,
        Err(why) => return not_found(why),
    };
    if chains.iter().all(|chain| chain.deployment().chain().instances.is_empty()) {
        return not_found("there are no functions, so packets have no way to show".into());
    }
    let Some(trace) = live.tracing.start() else {
        return problem(StatusCode::CONFLICT, "another trace is under way");
    };
    let (request, is_text) = match trace_request(keys).await {
        Ok(asked) => asked,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let result = match trace.record(&chains, request).await {
        Ok(result) => result,
        Err(why) => return not_found(why),
    };
    // Of many large packets it takes a while.
    let answer = move || match is_text {
        true => (result.to_text() + "\n").into_response(),
        false => Json(result.to_json()).into_response(),
    };
    let answer = spawn_blocking(answer).await;
    answer.unwrap_or_else(|why| problem(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()))
}

/// The packets that a request wants to trace, and whether it wants text.
async fn trace_request(keys: &Keys) -> Result<(TraceRequest, bool), String> {
    let text = keys.0.get("filter").cloned().ok_or("it requires `filter`")?;
    if text.len() > FILTER_LEN_MAX {
        return Err(format!("`filter` has more than {FILTER_LEN_MAX} bytes"));
    }
    let count = number(keys, "count", COUNT, COUNTS)?;
    let lasts = Duration::from_secs(number(keys, "seconds", TRACE_SECONDS, SECONDS)?);
    let is_text = match keys.0.get("form").map(String::as_str) {
        None | Some("json") => false,
        Some("text") => true,
        Some(other) => return Err(format!("`form` must be json or text, found {other:?}")),
    };
    // Names of hosts are resolved, which may take seconds.
    let compile = move || {
        let filter = PacketFilter::new(&text);
        filter.map_err(|why| format!("filter {text:?}: {why}"))
    };
    let filter = spawn_blocking(compile).await.map_err(|why| why.to_string())??;
    Ok((TraceRequest { filter, count, lasts }, is_text))
}

/// Moves a function.
async fn place(live: &Live, keys: Keys) -> Response {
    let chain = chain(&keys).map(str::to_owned);
    if let Err(why) = live.named(chain.as_deref()) {
        return not_found(why);
    }
    match (key(&keys, "function"), key(&keys, "device")) {
        (Ok(function), Ok(device)) => {
            let asked = Move::Place { function, device, chain };
            result(live.ask_move(asked), "the move", moved).await
        }
        (Err(why), _) | (_, Err(why)) => problem(StatusCode::BAD_REQUEST, &why),
    }
}

fn moved(text: String) -> Value {
    json!({ "result": text })
}

/// Waits for the result of a reload or a move without keeping others waiting.
async fn result<T>(
    result: Receiver<Result<T, String>>,
    what: &str,
    json: impl Fn(T) -> Value,
) -> Response {
    let started = tokio::time::Instant::now();
    loop {
        match result.try_recv() {
            Ok(Ok(done)) => return Json(json(done)).into_response(),
            Ok(Err(why)) => return problem(StatusCode::CONFLICT, &why),
            Err(TryRecvError::Disconnected) => {
                return problem(StatusCode::CONFLICT, "the chains have ended");
            }
            Err(TryRecvError::Empty) if started.elapsed() > PATIENCE => {
                return problem(StatusCode::GATEWAY_TIMEOUT, &format!("{what} takes longer"));
            }
            Err(TryRecvError::Empty) => sleep(Duration::from_millis(5)).await,
        }
    }
}
