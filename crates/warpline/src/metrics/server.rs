//! The server of `--metrics`.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, serve};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use warpline_io_error::plain;

use super::family::Families;
use super::health::Health;
use super::{chains, decisions};
use crate::ctl::{Limited, Live};

/// The content type of an answer.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A listener for scrapes.
pub(crate) struct Metrics {
    listener: StdListener,
}

/// A server that ends when this is dropped.
pub(crate) struct Server {
    _stop: oneshot::Sender<()>,
}

/// The address of a listener: `ADDRESS:PORT`, with `,insecure` after it if others can reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricsAddress {
    text: String,
    address: SocketAddr,
}

impl FromStr for MetricsAddress {
    type Err = String;

    /// # Errors
    /// The address is wrong, or off loopback without `insecure`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, is_insecure) = match text.split_once(',') {
            None => (text, false),
            Some((address, "insecure")) => (address, true),
            Some(_) => return Err("the only option is `insecure`: 0.0.0.0:9464,insecure".into()),
        };
        let address: SocketAddr = address
            .parse()
            .map_err(|_| "must be an IP address and a port: 127.0.0.1:9464 or [::1]:9464")?;
        if !address.ip().is_loopback() && !is_insecure {
            return Err(format!(
                "other hosts can reach this address, and metrics have no access control; use \
                 127.0.0.1:{port}, or {address},insecure",
                port = address.port()
            ));
        }
        Ok(Self { text: text.into(), address })
    }
}

impl MetricsAddress {
    /// The address as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Metrics {
    /// Listens on an address.
    ///
    /// # Errors
    /// It is in use, or not one of this machine.
    pub(crate) fn open(at: &MetricsAddress) -> Result<Self, String> {
        let named = |why: io::Error| format!("metrics {}: {}", at.text, plain(&why));
        let listener = StdListener::bind(at.address).map_err(named)?;
        listener.set_nonblocking(true).map_err(named)?;
        Ok(Self { listener })
    }

    /// Serves it, on a thread that nothing waits for.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub(crate) fn serve(self, live: Arc<Live>) -> Result<Server, String> {
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(answer_all(self.listener, live, stopped));
            runtime.shutdown_timeout(Duration::from_millis(100));
        };
        let started = thread::Builder::new().name("metrics".into()).spawn(work);
        started.map_err(|why| format!("cannot spawn thread: {}", plain(&why)))?;
        Ok(Server { _stop: stop })
    }
}

async fn answer_all(listener: StdListener, live: Arc<Live>, stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scraped(Arc::clone(&live))));
    let health = Health::new(live.chains().len());
    let served = Arc::new(Served { registry, live, health });
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(served);
    tokio::select! {
        _ = serve(Limited::new(listener), router) => {}
        _ = stopped => {}
    }
}

struct Served {
    registry: Registry,
    live: Arc<Live>,
    health: Health,
}

async fn metrics(served: State<Arc<Served>>) -> Response {
    let mut body = String::new();
    match text::encode(&mut body, &served.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// 200 while all chains run or have ended, 503 while one drains or stalls.
async fn healthz(served: State<Arc<Served>>) -> (StatusCode, String) {
    let chains = served.live.chains();
    let looked = chains.iter().enumerate().map(|(at, chain)| served.health.look(at, chain));
    if let Some(why) = looked.filter_map(Result::err).next() {
        return (StatusCode::SERVICE_UNAVAILABLE, why + "\n");
    }
    match chains.iter().find(|chain| chain.state() == "stopping") {
        None => (StatusCode::OK, "healthy\n".into()),
        Some(chain) => {
            let text = format!("draining: chain {:?} is stopping\n", chain.name);
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

/// Reads a snapshot of each chain at each scrape.
struct Scraped(Arc<Live>);

impl Debug for Scraped {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scraped").finish_non_exhaustive()
    }
}

impl Collector for Scraped {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut all = Families::default();
        let (reloads, last) = self.0.reloads();
        chains::add_process(&mut all, self.0.started(), reloads, last);
        decisions::add(&mut all, self.0.proposals());
        self.0.chains().iter().for_each(|chain| chains::add(&mut all, chain));
        all.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<(), String> {
        Metrics::open(&text.parse()?).map(drop)
    }

    fn refusal(text: &str) -> String {
        open(text).err().unwrap_or_default()
    }

    #[test]
    fn addresses_off_loopback_need_insecure() {
        assert_eq!(open("127.0.0.1:0"), Ok(()));
        assert_eq!(open("0.0.0.0:0,insecure"), Ok(()));
        let why = refusal("0.0.0.0:9464");
        assert!(why.contains("use 127.0.0.1:9464, or 0.0.0.0:9464,insecure"), "{why}");
        assert!(refusal("127.0.0.1:0,secure").contains("the only option is `insecure`"));
        assert!(refusal("localhost:9464").contains("must be an IP address and a port"));
    }

    #[test]
    fn an_address_in_use_is_refused() {
        let taken = StdListener::bind("127.0.0.1:0").expect("a listener");
        let address = taken.local_addr().expect("an address");
        let why = refusal(&address.to_string());
        assert!(why.contains("in use"), "{why}");
    }
}
