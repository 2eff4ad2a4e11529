//! The operator gets a warning about a failed device while packets flow, and can reload functions
//! that fell back to the CPU.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Failure};
use warpline_engine::{Chain, Control, Deployment, Settings, Successor};
use warpline_io::{Next, Source, SourceError};

use crate::common::ports::{Frames, SentFrames};
use crate::common::real::{forms, run_forms, traffic};
use crate::common::run::{assert_same, run_ports};
use crate::common::talk::Talk;
use crate::failures::{launches, loading};
use crate::placed::{deploy_on, host};

/// Waits in the middle until a message came, and then asks for a reload.
struct Waiting {
    frames: Frames,
    control: Arc<Control>,
    running: Arc<Deployment>,
    next: Option<Deployment>,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Source for Waiting {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.frames.next < self.frames.inputs.len() / 2 || self.next.is_none() {
            return self.frames.next();
        }
        let mut messages = self.messages.lock().expect("messages");
        messages.extend(self.control.take_messages());
        if !messages.is_empty()
            && let Some(next) = self.next.take()
        {
            let successor = Successor::new(&self.running, next).expect("a chain that can follow");
            assert!(self.control.reload(&successor));
        }
        Ok(Next::Idle(Duration::from_millis(1)))
    }
}

#[test]
fn a_device_that_failed_is_reported_at_once_and_what_went_on_without_it_can_be_reloaded() {
    let Some(host) = host() else { return };
    // The CPU does the work of failed launches: nothing is in place.
    let host = warpline_device::apart(&host);
    let forms = forms(&["router-plain"]);
    let inputs = traffic(&forms, Talk::new(5, 40, 900).take(2000), 7, 15);
    for lanes in [1, 2] {
        let settings = Settings { lanes, batch_packets: 64, ..Settings::default() };
        let reference = run_forms(&forms, settings, &inputs).summary();
        let first = loading(&forms);
        let lost = Fault::Fail(Failure::Lost("it fell off the bus".into()));
        let device: Arc<dyn Device> = Arc::new(Faulty::new(Arc::clone(&host), move |number| {
            (number >= first).then(|| lost.clone())
        }));
        let running = Arc::new(deploy_on(&forms, &device, launches()));
        let next = deploy_on(&forms, &device, launches());
        let mut chain = Chain::clone(next.chain());
        chain.instances[0].fingerprint ^= 1;
        let next = Deployment::new(Arc::new(chain), next.sites().to_vec());
        let (control, messages) = (Arc::new(Control::default()), Arc::default());
        let source = Waiting {
            frames: Frames::new(&inputs),
            control: Arc::clone(&control),
            running: Arc::clone(&running),
            next: Some(next),
            messages: Arc::clone(&messages),
        };
        let outcome = run_ports(running, settings, source, SentFrames::default(), control);
        assert_same(&reference, &outcome.summary(), "on the CPU");
        let messages = messages.lock().expect("messages");
        let place = if lanes == 1 { "" } else { " in at least one lane" };
        let expected = format!(
            "0-router-plain fell back to the CPU{place}: the device is lost: it fell off the bus"
        );
        assert_eq!(*messages, [expected]);
    }
}
