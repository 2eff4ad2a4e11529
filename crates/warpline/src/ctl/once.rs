//! The control socket for one connection in memory, for fuzz targets.

use std::future::{IntoFuture, pending};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::serve;
use axum::serve::Listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::limited::Limited;
use super::live::Live;
use super::server::router;

/// Bytes on the way in each direction.
const ROOM: usize = 64 << 10;
/// Turns in which a server without clients of its own does all that it can.
const TURNS: usize = 64;
/// Longer than a request waits until it looks for the result of a reload or a move.
const LOOKS: Duration = Duration::from_millis(6);

/// Gives one connection.
struct Once(Option<DuplexStream>);

impl Listener for Once {
    type Io = DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> (DuplexStream, ()) {
        match self.0.take() {
            Some(stream) => (stream, ()),
            None => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The answers to a client of `live` that sends `bytes` and then closes its side. Reloads and moves
/// are refused.
pub(crate) fn answers(live: &Arc<Live>, bytes: &[u8]) -> Vec<u8> {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let (client, stream) = duplex(ROOM);
        let (mut reader, mut writer) = split(client);
        let mut answers = Vec::new();
        let ask = async {
            // The server may close the connection before it has read all.
            let _ = writer.write_all(bytes).await;
            loop {
                for _ in 0..TURNS {
                    yield_now().await;
                }
                if !refuse_all(live) {
                    break;
                }
                sleep(LOOKS).await;
            }
            let _ = writer.shutdown().await;
            pending().await
        };
        let served = serve(Limited::new(Once(Some(stream))), router(Arc::clone(live)));
        tokio::select! {
            _ = reader.read_to_end(&mut answers) => {}
            () = ask => {}
            _ = served.into_future() => {}
        }
        answers
    })
}

/// Refuses reloads and moves; returns whether one was asked for.
fn refuse_all(live: &Live) -> bool {
    let (asked, moves) = (live.take_reload(), live.take_moves());
    let any = asked.is_some() || !moves.is_empty();
    if let Some(asked) = asked {
        live.answer_reload(asked, &Err("no chain runs".into()));
    }
    for (_, answer) in moves {
        let _ = answer.send(Err("no chain runs".into()));
    }
    any
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use warpline_engine::Machine;

    use super::*;

    fn answers_to(request: &[u8]) -> String {
        let none = Machine::default();
        let live = Live::new(none, Arc::default(), Arc::default(), Arc::default());
        String::from_utf8(answers(&Arc::new(live), request)).expect("text")
    }

    #[test]
    fn requests_are_answered_one_after_the_other() {
        let status = "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n";
        for (request, statuses) in [
            (status.to_owned(), &["200"][..]),
            (status.repeat(3), &["200", "200", "200"]),
            ("POST /v1/reload HTTP/1.1\r\nhost: x\r\n\r\n".to_owned() + status, &["409", "200"]),
            ("POST /v1/policy?policy=x HTTP/1.1\r\nhost: x\r\n\r\n".into(), &["409"]),
            ("POST /v1/place HTTP/1.1\r\nhost: x\r\n\r\n".into(), &["400"]),
            ("nonsense\r\n\r\n".into(), &["400"]),
            ("GET /v1/status HTTP/1.1\r\nhost: x\r\n".into(), &[]),
            (String::new(), &[]),
        ] {
            let answers = answers_to(request.as_bytes());
            let found = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]);
            assert_eq!(found.collect::<Vec<_>>(), statuses, "{request}: {answers}");
        }
    }

    /// Requests with damaged bytes are answered by a known status, or not at all.
    #[test]
    fn damaged_requests_are_harmless() {
        let seed = std::env::var("WARPLINE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 0x9e37_79b9);
        println!("replay: WARPLINE_SEED={seed}");
        let mut state = seed | 1;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize % below
        };
        let request = b"POST /v1/place?function=nat&device=cpu&chain=a%20b HTTP/1.1\r\n\
            host: x\r\ncontent-length: 3\r\n\r\nabcGET /v1/stats?chain=a HTTP/1.1\r\nhost: x\r\n\
            \r\n";
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            let mut damaged = request.to_vec();
            for _ in 0..=random(4) {
                let at = random(damaged.len());
                damaged[at] = b"\0\r\n %&=?/:19aZ\x80\xff"[random(16)];
            }
            let answers = answers_to(&damaged);
            assert!(answers.is_empty() || answers.starts_with("HTTP/1."), "{answers}");
            assert!(!answers.contains(" 500 "), "{answers}");
        }
    }
}
