//! The bare loop: the least that any simulator of windows over one queue must do.
//!
//! It has no protocol: two events per packet (it leaves the queue, its acknowledgement arrives), a
//! FIFO, and windows that grow by 1/W and halve on a drop. The cost of the full simulator is given
//! as a ratio to this loop in the same run.

use std::collections::VecDeque;

/// A dumbbell: flows that share one bottleneck.
#[derive(Debug, Clone, Copy)]
pub struct Bare {
    /// Number of flows.
    pub flows: usize,
    /// Size of the buffer in packets.
    pub buffer: usize,
    /// Nanoseconds that a packet takes on the link.
    pub service_ns: u64,
    /// Round trip without a queue.
    pub rtt_ns: u64,
    /// Simulated time.
    pub duration_ns: u64,
}

#[derive(Clone, Copy)]
struct Flow {
    window: f32,
    inflight: u32,
}

impl Bare {
    /// Runs the loop. Returns the number of delivered packets.
    pub fn run(&self) -> u64 {
        let mut flows = vec![Flow { window: 1.0, inflight: 0 }; self.flows];
        let mut queue: VecDeque<u32> = VecDeque::with_capacity(self.buffer + 1);
        let mut returning: VecDeque<(u64, u32)> = VecDeque::new();
        let (mut departure, mut delivered) = (u64::MAX, 0);
        for (index, flow) in flows.iter_mut().enumerate().take(self.buffer) {
            queue.push_back(index as u32);
            flow.inflight = 1;
        }
        if !queue.is_empty() {
            departure = self.service_ns;
        }
        loop {
            let arrival = returning.front().map_or(u64::MAX, |&(at, _)| at);
            let now = departure.min(arrival);
            if now > self.duration_ns {
                return delivered;
            }
            if departure <= arrival {
                if let Some(flow) = queue.pop_front() {
                    returning.push_back((now + self.rtt_ns, flow));
                }
                departure = if queue.is_empty() { u64::MAX } else { now + self.service_ns };
                continue;
            }
            let Some((_, index)) = returning.pop_front() else { return delivered };
            delivered += 1;
            let flow = &mut flows[index as usize];
            flow.inflight -= 1;
            flow.window += 1.0 / flow.window;
            while (flow.inflight as f32) < flow.window.floor() {
                if queue.len() >= self.buffer {
                    flow.window = (flow.window / 2.0).max(1.0);
                    if flow.inflight > 0 {
                        break;
                    }
                    // Nothing of the flow is in flight, so no acknowledgement can wake it: it
                    // waits for a round trip.
                    returning.push_back((now + self.rtt_ns, index));
                    flow.inflight += 1;
                    delivered -= 1;
                    break;
                }
                if queue.is_empty() && departure == u64::MAX {
                    departure = now + self.service_ns;
                }
                queue.push_back(index);
                flow.inflight += 1;
            }
        }
    }
}
