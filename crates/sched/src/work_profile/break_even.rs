//! From which load and packet length a device beats the CPU.

use super::{CPU, Figures, WorkProfile};
use crate::LinkSpeeds;

/// From where on a device beats the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakEven {
    /// The shortest measured packet length at which the device has more throughput than one lane.
    pub packet_len: u32,
    /// A longer one at which the lane has more, if there is one.
    pub slower_len: Option<u32>,
    /// The load in bits a second that a lane cannot carry at that length.
    pub bits_per_s: f64,
    /// The launch size of the device.
    pub launch_packets: u32,
    /// The device's throughput, copies included.
    pub device_bits_per_s: f64,
}

/// Why a device never beats the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoBreakEven {
    /// The function was not measured on the CPU.
    CpuUnmeasured,
    /// The function was not measured on the device.
    DeviceUnmeasured,
    /// The work alone is slower on the device, at every length. The best ratio of device to lane.
    Work(f64),
    /// The work alone is faster, but copies make it slower. The best ratio with them.
    Copies(f64),
}

impl WorkProfile {
    /// Where `device` beats one lane of the CPU, with frames that cross `link` whole in both
    /// directions. Copies overlap with work. A device that shares the host's memory has no link.
    ///
    /// # Errors
    /// The reason why it never does.
    pub fn break_even(
        &self,
        function: usize,
        device: usize,
        link: Option<&LinkSpeeds>,
    ) -> Result<BreakEven, NoBreakEven> {
        let lens = self.packet_lens(function);
        let (mut best_work, mut best_copied) = (0.0f64, 0.0f64);
        let mut found: Option<BreakEven> = None;
        for &packet_len in &lens {
            let knee = |device| self.launch_knee((function, device), packet_len);
            let at = |device, launch| self.alone((function, device), launch, packet_len);
            let launch_packets = knee(device).ok_or(NoBreakEven::DeviceUnmeasured)?;
            let cpu = knee(CPU).and_then(|launch| at(CPU, launch));
            let bits_per_s = cpu.ok_or(NoBreakEven::CpuUnmeasured)?.bits_per_s;
            let own = at(device, launch_packets).ok_or(NoBreakEven::DeviceUnmeasured)?;
            let device_bits_per_s = copied(&own, link, launch_packets, packet_len);
            match &mut found {
                None if device_bits_per_s > bits_per_s => {
                    found = Some(BreakEven {
                        packet_len,
                        slower_len: None,
                        bits_per_s,
                        launch_packets,
                        device_bits_per_s,
                    });
                }
                Some(found) if device_bits_per_s <= bits_per_s => {
                    found.slower_len.get_or_insert(packet_len);
                }
                _ => {}
            }
            best_work = best_work.max(own.bits_per_s / bits_per_s);
            best_copied = best_copied.max(device_bits_per_s / bits_per_s);
        }
        found.ok_or(match (lens.is_empty(), best_work > 1.0) {
            (true, _) => NoBreakEven::CpuUnmeasured,
            (_, true) => NoBreakEven::Copies(best_copied),
            (_, false) => NoBreakEven::Work(best_work),
        })
    }

    /// The packet lengths that were measured on the CPU, from the shortest.
    fn packet_lens(&self, function: usize) -> Vec<u32> {
        let sizes = self.work.get(&((function, CPU), None));
        let mut lens: Vec<u32> = sizes.into_iter().flatten().map(|(&(len, _), _)| len).collect();
        lens.dedup();
        lens
    }
}

/// Throughput with copies: the slowest of work and either direction of the link.
fn copied(own: &Figures, link: Option<&LinkSpeeds>, launch: u32, packet_len: u32) -> f64 {
    let Some(link) = link else { return own.bits_per_s };
    let bytes = f64::from(launch) * f64::from(packet_len);
    let of = |speed: f64| 8.0 * bytes / (bytes / speed + link.each_copy);
    own.bits_per_s.min(of(link.to_device)).min(of(link.to_host))
}
