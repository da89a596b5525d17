//! The loop that moves packets, in real time.

use crate::device::Device;
use crate::record::{Event, Writer};
use crate::tally::Listener;
use crate::{Direction, Error, Frame, Tally};
use leeway_link::{Arrival, Link, LinkSpec};
use leeway_units::{Duration, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::time::Instant;
use thread_priority::{RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};

/// Most calls that read from one device before the links are polled again.
const READS: usize = 16;
/// Most packets that are written at once.
const WRITTEN: usize = 64;
/// The real-time priority, in the middle of the range.
const PRIORITY: u8 = 50;
/// Time before a departure at which the engine stops sleeping and waits awake. A processor that
/// wakes from idle takes longer in 1 case of 100.
const WAKE: Duration = Duration::from_micros(100);
/// Departures closer than this to the previous one get no such wait, so that waiting takes at most
/// a quarter of a processor.
const SPACED: Duration = Duration::from_micros(400);

/// Two devices and the links between them.
pub struct Engine {
    /// The device on the command's side, then the device on the network's side.
    devices: [Device; 2],
    directions: [DirectionState; 2],
    log: Option<Writer>,
    /// Free buffers.
    buffers: Vec<Vec<u8>>,
}

/// One direction: from the device of the same index to the other.
struct DirectionState {
    direction: Direction,
    link: Link<Frame>,
    tally: Tally,
    /// Packets that have left the link and are being written.
    left: Vec<Arrival<Frame>>,
}

/// Ends an engine, by a call or when it is dropped.
#[derive(Debug)]
pub struct Stopper(#[allow(dead_code, reason = "its end is the message")] PipeWriter);

/// The receiving end of a stop: what an engine waits for besides packets.
#[derive(Debug)]
pub struct Stop(PipeReader);

impl Stop {
    /// A stop, and the handle that calls it.
    pub fn new() -> Result<(Stopper, Stop), Error> {
        let (reader, writer) = io::pipe().map_err(Error::of("make a pipe"))?;
        Ok((Stopper(writer), Stop(reader)))
    }
}

/// The outcome of an engine.
#[derive(Debug)]
pub struct Ended {
    /// Up, then down.
    pub tallies: [Tally; 2],
    /// Whether it had a real-time priority.
    pub real_time: bool,
    /// Time for which it ran.
    pub ran: Duration,
    /// Processor time of the engine's thread.
    pub busy: Duration,
}

impl Engine {
    /// An engine for the devices of the command's and the network's side, and the links up and
    /// down.
    pub fn new(devices: [Device; 2], links: &[LinkSpec; 2], seed: u64, log: Option<Writer>) -> Self {
        let state = |direction: Direction, spec: &LinkSpec| DirectionState {
            direction,
            link: spec.build(direction.seed(seed)),
            tally: Tally::default(),
            left: Vec::new(),
        };
        let directions = [state(Direction::Up, &links[0]), state(Direction::Down, &links[1])];
        Engine { devices, directions, log, buffers: Vec::new() }
    }

    /// Moves packets until it is stopped; packets that are on the link then are lost. The calling
    /// thread gets a real-time priority where the system permits.
    pub fn run(mut self, stop: &Stop) -> Result<Ended, Error> {
        let real_time = take_priority();
        let start = Instant::now();
        let clock = || Time::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut delivered = Time::ZERO;
        let stopped = loop {
            let now = clock();
            let [first, second] = &mut self.devices;
            for (state, to) in self.directions.iter_mut().zip([&mut *second, &mut *first]) {
                if deliver(state, to, now, &clock, self.log.as_mut(), &mut self.buffers) {
                    delivered = now;
                }
            }
            let next = self.directions.iter().filter_map(|state| state.link.next()).min();
            let wait = next.map(|next| {
                let early = if next.since(delivered) < SPACED { Duration::ZERO } else { WAKE };
                TimeSpec::from_duration(next.since(clock() + early).into_std())
            });
            let mut polled = [
                PollFd::new(first.as_fd(), PollFlags::POLLIN),
                PollFd::new(second.as_fd(), PollFlags::POLLIN),
                PollFd::new(stop.0.as_fd(), PollFlags::POLLIN),
            ];
            match ppoll(&mut polled, wait, None) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(errno) => return Err(Error::of_errno("wait for packets")(errno)),
            }
            let [up, down, end] = polled.map(|fd| fd.any().unwrap_or(false));
            if end {
                break now;
            }
            for (state, (from, readable)) in self.directions.iter_mut().zip([(first, up), (second, down)]) {
                if readable {
                    take(state, from, &clock, self.log.as_mut(), &mut self.buffers)?;
                }
            }
        };
        if let Some(mut log) = self.log {
            for state in &self.directions {
                let (direction, packet) = (state.direction, state.tally.arrived);
                log.add(crate::record::Record { direction, packet, at: stopped, event: Event::Stop });
            }
            log.finish().map_err(Error::of("write the log"))?;
        }
        let busy = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, |time| {
            Duration::from_nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
        });
        Ok(Ended {
            tallies: self.directions.map(|state| state.tally),
            real_time,
            ran: stopped - Time::ZERO,
            busy,
        })
    }
}

/// Writes the packets that left the link by `now` to `to`. True if there were any.
fn deliver(
    state: &mut DirectionState,
    to: &mut Device,
    now: Time,
    clock: &impl Fn() -> Time,
    log: Option<&mut Writer>,
    buffers: &mut Vec<Vec<u8>>,
) -> bool {
    let DirectionState { direction, link, tally, left } = state;
    let mut listener = Listener { direction: *direction, tally, log, buffers };
    let mut any = false;
    loop {
        while left.len() < WRITTEN
            && let Some(arrival) = link.poll(now, &mut listener)
        {
            to.add(arrival.packet.data());
            left.push(arrival);
        }
        if left.is_empty() {
            return any;
        }
        any = true;
        let taken = to.write();
        let at = clock();
        for Arrival { at: due, packet: frame, .. } in left.drain(..) {
            match taken {
                true => {
                    listener.tally.left += 1;
                    listener.tally.left_bytes += frame.data().len() as u64;
                }
                // The device is down or full. The packet is lost, as on a real wire.
                false => listener.tally.refused += 1,
            }
            listener.tally.lateness.add(at - due);
            listener.record(frame.id, at, Event::Leave { due });
            listener.buffers.push(frame.into_buffer());
        }
    }
}

/// Offers the packets that wait at `from` to the link, at most those of one burst of reads.
fn take(
    state: &mut DirectionState,
    from: &mut Device,
    clock: &impl Fn() -> Time,
    log: Option<&mut Writer>,
    buffers: &mut Vec<Vec<u8>>,
) -> Result<(), Error> {
    let DirectionState { direction, link, tally, .. } = state;
    let mut listener = Listener { direction: *direction, tally, log, buffers };
    for _ in 0..READS {
        let some = from.read(|packet| {
            let mut data = listener.buffers.pop().unwrap_or_default();
            data.clear();
            data.extend_from_slice(packet);
            let frame = Frame::new(listener.tally.arrived, data);
            let now = clock();
            listener.arrived(now, &frame);
            link.offer(now, frame, &mut listener);
        })?;
        if !some {
            break;
        }
    }
    Ok(())
}

/// Asks for a real-time priority, or at least for timers that are not rounded; true if the thread
/// has the priority.
fn take_priority() -> bool {
    // The kernel may refuse this request; without it wake-ups are 50 us later.
    let _ = prctl::set_timerslack(1);
    let Ok(priority) = PRIORITY.try_into() else { return false };
    thread_priority::set_thread_priority_and_policy(
        thread_priority::thread_native_id(),
        ThreadPriority::Crossplatform(priority),
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    )
    .is_ok()
}

/// The standard library's span for one of ours.
trait IntoStd {
    fn into_std(self) -> std::time::Duration;
}

impl IntoStd for Duration {
    fn into_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.nanos())
    }
}
