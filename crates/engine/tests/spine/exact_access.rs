//! Access sets are true of the bytes themselves, for every form of every function ([`warpline_nf::harness::exact`]). Functions that
//! look at a frame's bytes say which fields they mean, and nothing else checks that.

use std::sync::Arc;

use warpline_nf::Function;
use warpline_nf::harness::exact::{Undeclared, look};
use warpline_nf::harness::{self, Harness};
use warpline_packet::{Access, Batch, Field, FieldSet, Instant, Phase, ReadWrite, Reason};

use crate::common::forms::{ESN, FORMS, Form, NARROW};
use crate::common::frames::Input;
use crate::common::real::{chain_of, traffic};
use crate::common::talk::Talk;

fn harness_input(input: &Input) -> harness::Input {
    harness::Input {
        bytes: input.bytes.clone(),
        timestamp: Instant::from_nanos(input.nanos),
        wire_len: input.wire_len,
        link: input.link,
    }
}

fn harness(form: &Form) -> Harness {
    let chain = chain_of(&[*form]);
    let function: Arc<dyn Function> = chain.instances[0].function.clone();
    // Files of numbers that were used are opened here.
    let _ = function.report(&warpline_nf::Outputs::default()).expect("a report");
    Harness::new(function, chain.scratch_words)
}

fn inputs(forms: &[Form]) -> Vec<harness::Input> {
    traffic(forms, Talk::new(71, 60, 1400).take(800), 73, 15).iter().map(harness_input).collect()
}

#[test]
fn no_phase_touches_what_it_does_not_declare() {
    for form in FORMS.iter().chain(NARROW).chain(&ESN) {
        let inputs = inputs(&[*form]);
        let looked = look(&|| harness(form), &inputs);
        let looked = looked.unwrap_or_else(|why| panic!("{}: {why:?}", form.name));
        assert!(looked.outcomes.len() >= inputs.len(), "{}", form.name);
        let seen = looked.unwritten + looked.unread;
        assert!(seen > 1000, "{}: {seen}", form.name);
    }
}

/// Looks at a byte of each frame that it doesn't declare, from one packet on, or writes it. It does so behind the accessors.
struct Liar {
    is_writer: bool,
}

const DECLARED: Access = Access::run_only(ReadWrite::new(
    FieldSet::of(&[Field::EthType, Field::Ingress]),
    FieldSet::of(&[Field::Verdict]),
));

/// Where an IPv4 header has its TTL, behind Ethernet.
const TTL_AT: usize = 14 + 8;

impl Function for Liar {
    fn access(&self) -> &Access {
        &DECLARED
    }

    fn run(&self, batch: &mut Batch) {
        for row in 0..batch.len() {
            if batch.packet(row).ingress() < 300 {
                continue;
            }
            let mut packet = batch.packet_mut(row);
            // The declaration has what is asked for here, and the frame is all there.
            let frame = packet.frame_mut_for(FieldSet::EMPTY);
            let is_v4 = frame.get(12..15) == Some(&[0x08, 0x00, 0x45]);
            match frame.get(TTL_AT).copied().filter(|_| is_v4) {
                Some(_) if self.is_writer => frame[TTL_AT] ^= 1,
                Some(ttl) if ttl > 128 => packet.drop(Reason(0)),
                _ => {}
            }
        }
    }
}

#[test]
fn what_is_not_declared_is_named() {
    let inputs = inputs(&[]);
    for is_writer in [false, true] {
        let found =
            look(&|| Harness::new(Box::new(Liar { is_writer }) as Box<dyn Function>, 0), &inputs);
        let Undeclared { packet, phase, field, is_written } = found.map(drop).expect_err("a lie");
        assert_eq!((phase, field, is_written), (Phase::Run, Field::Ttl, is_writer));
        assert!((300..364).contains(&packet), "{packet}");
    }
}
