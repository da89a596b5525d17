//! How a server stands, for clients that know several: whether new connections are welcome, and how busy it is.

use tokio::sync::watch;

/// What a server says of itself to its clients. It names nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Seconds until new connections are welcome again, [`Standing::OPEN_END`] where that is not known; none: they
    /// are welcome.
    pub paused_s: Option<u32>,
    /// Clients with traffic in the last seconds.
    pub users: u16,
    /// What its line carries in each direction, in kbit/s; none where nobody has said so.
    pub rate_kbps: Option<u32>,
    /// The part of that rate which is in use, in thousandths; 0 where the rate is not known.
    pub load_permille: u16,
}

impl Standing {
    /// A pause that lasts until somebody ends it.
    pub const OPEN_END: u32 = u32::MAX;
}

/// Where a connection hears how its server stands, to tell the client. A client's end tells nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tell(Option<watch::Receiver<Standing>>);

impl Tell {
    /// Tells the present standing at once, then each new one.
    pub fn of(standing: &watch::Sender<Standing>) -> Tell {
        let mut receiver = standing.subscribe();
        receiver.mark_changed();
        Tell(Some(receiver))
    }

    /// What is to be told now, if anything.
    pub fn now(&mut self) -> Option<Standing> {
        let receiver = self.0.as_mut()?;
        receiver.has_changed().ok()?.then(|| *receiver.borrow_and_update())
    }

    /// What is to be told next; waits for it, for ever where there is nothing to tell.
    pub async fn next(&mut self) -> Standing {
        if let Some(receiver) = &mut self.0
            && receiver.changed().await.is_ok()
        {
            return *receiver.borrow_and_update();
        }
        std::future::pending().await
    }
}
