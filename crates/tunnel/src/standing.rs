//! The standing of a server: whether it accepts new connections, and its load. Clients of several
//! servers choose by it.

use tokio::sync::watch;

/// What a server tells its clients about itself. It names no client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Seconds until new connections are accepted again, or [`Standing::OPEN_END`] if the end is
    /// unknown; `None` if they are accepted.
    pub paused_s: Option<u32>,
    /// Clients with traffic in the last 15 s.
    pub users: u16,
    /// Rate of the server's line in each direction, in kbit/s; `None` if it is not configured.
    pub rate_kbps: Option<u32>,
    /// The part of that rate in use, in thousandths; 0 if the rate is unknown.
    pub load_permille: u16,
}

impl Standing {
    /// A pause without a known end.
    pub const OPEN_END: u32 = u32::MAX;
}

/// The source of a server's standing for one connection. At a client's end it gives nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tell(Option<watch::Receiver<Standing>>);

impl Tell {
    /// Gives the present standing at once, then each new one.
    pub fn of(standing: &watch::Sender<Standing>) -> Tell {
        let mut receiver = standing.subscribe();
        receiver.mark_changed();
        Tell(Some(receiver))
    }

    /// The standing to send now, if it is new.
    pub fn now(&mut self) -> Option<Standing> {
        let receiver = self.0.as_mut()?;
        receiver.has_changed().ok()?.then(|| *receiver.borrow_and_update())
    }

    /// Waits for the next standing to send; for ever if there is no source.
    pub async fn next(&mut self) -> Standing {
        if let Some(receiver) = &mut self.0
            && receiver.changed().await.is_ok()
        {
            return *receiver.borrow_and_update();
        }
        std::future::pending().await
    }
}
