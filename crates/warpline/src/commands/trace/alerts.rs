//! Alerts about traced packets.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::trace::Recorder;

/// Takes alerts as lines of JSON, and keeps those about packets that are traced.
#[derive(Clone)]
pub(super) struct AlertSink {
    recorder: Arc<Recorder>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    /// The beginning of a line.
    line: Vec<u8>,
    alerts: Vec<Value>,
}

/// Before the number of an alert's packet.
const NUMBER: &[u8] = b"\"pcap_cnt\":";

impl AlertSink {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        Self { recorder, taken: Arc::default() }
    }

    /// The alerts so far.
    pub(super) fn take(&self) -> Vec<Value> {
        mem::take(&mut self.taken().alerts)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of an alert's packet, if it has one.
fn number_of(line: &[u8]) -> Option<u64> {
    let at = line.windows(NUMBER.len()).position(|part| part == NUMBER)? + NUMBER.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.map(|digit| char::from(*digit)).collect::<String>().parse().ok()
}

impl Write for AlertSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.taken();
        let Taken { line, alerts } = &mut *taken;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(part);
            if !line.ends_with(b"\n") {
                continue;
            }
            if number_of(line).is_some_and(|number| self.recorder.has(number))
                && let Ok(Value::Object(mut alert)) = serde_json::from_slice(line)
            {
                // As of packets, no payload is shown.
                for key in ["packet", "packet_info", "payload", "payload_printable"] {
                    alert.remove(key);
                }
                alerts.push(alert.into());
            }
            line.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
