//! Losses on the link itself, and link-layer retransmission, which turns losses into delay.

use leeway_queue::spec::SpecError;
use leeway_queue::{Chance, Reason, named, params};
use leeway_units::{Duration, Time};

params! {
    /// Parameters of independent losses.
    pub struct RandomLossParams: "random", "Each packet is lost independently of the others", "Bernoulli" {
        /// The probability that a packet is lost.
        p: f64 = 0.01, 0.0..=1.0;
    }
}

params! {
    /// Parameters of bursty losses.
    pub struct GilbertElliottParams: "gilbert_elliott", "Losses in bursts: a good and a bad state, each with its own loss", "Gilbert 1960; Elliott 1963" {
        /// The probability to go from good to bad, at each packet.
        p: f64 = 0.01, 0.0..=1.0;
        /// The probability to go from bad to good, at each packet.
        r: f64 = 0.3, 0.0..=1.0;
        /// The probability that a packet passes in the bad state.
        h: f64 = 0.0, 0.0..=1.0;
        /// The probability that a packet passes in the good state.
        k: f64 = 1.0, 0.0..=1.0;
    }
}

named! {
    /// How a link loses packets, as plain data: `random:p=1%`, `gilbert_elliott:p=1%,r=30%`.
    pub enum LossSpec: "Loss", "loss model", "random:p=1% or gilbert_elliott:p=1%,r=30%" {
        /// Independent losses.
        Random(RandomLossParams),
        /// Losses in bursts.
        GilbertElliott(GilbertElliottParams),
    }
}

impl LossSpec {
    /// The share of packets lost in the long run.
    pub fn mean(&self) -> f64 {
        match self {
            LossSpec::Random(params) => params.p,
            LossSpec::GilbertElliott(GilbertElliottParams { p, r, h, k }) => {
                // A chain that never changes its state stays good, as at the start.
                let bad = if p + r == 0.0 { 0.0 } else { p / (p + r) };
                bad * (1.0 - h) + (1.0 - bad) * (1.0 - k)
            }
        }
    }
}

/// A loss model in use.
#[derive(Debug, Clone)]
pub struct Loss {
    spec: LossSpec,
    chance: Chance,
    bad: bool,
}

impl Loss {
    /// The model with the random numbers of `seed`. A Gilbert-Elliott channel starts in the good
    /// state.
    pub fn new(spec: LossSpec, seed: u64) -> Self {
        Loss { spec, chance: Chance::new(seed), bad: false }
    }

    /// Whether the next packet is lost.
    pub fn is_lost(&mut self) -> bool {
        match &self.spec {
            LossSpec::Random(params) => self.chance.uniform() < params.p,
            LossSpec::GilbertElliott(params) => {
                let leaves = if self.bad { params.r } else { params.p };
                self.bad ^= self.chance.uniform() < leaves;
                let passes = if self.bad { params.h } else { params.k };
                self.chance.uniform() >= passes
            }
        }
    }
}

params! {
    /// Link-layer retransmission (ARQ), spelled `tries=4,delay=20ms`. Each loss costs another
    /// transmission and a delay.
    ///
    /// The transmissions of a packet follow one another on the link, and each retry delays its
    /// delivery by `delay`. Packets are delivered in order. Packets behind a delayed one wait for
    /// it, while the link already sends others.
    pub struct Arq: "arq", "Link-layer retransmission: losses become delay", "RFC 3366" {
        /// Transmissions of one packet at most; a packet that is lost in all of them is lost for
        /// good.
        tries: u32 = 8, 1..=1000;
        /// The delay that each retry adds: the time until the loss is known.
        delay: Duration = Duration::from_millis(10), ..;
    }
}

impl std::str::FromStr for Arq {
    type Err = SpecError;

    /// Reads `tries=4,delay=20ms`, also behind `arq:`.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let text =
            text.strip_prefix("arq").filter(|rest| rest.is_empty() || rest.starts_with(':')).unwrap_or(text);
        leeway_queue::spec::read(text.trim_start_matches(':'))
    }
}

impl std::fmt::Display for Arq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        leeway_queue::spec::write(self, f)
    }
}

#[cfg(feature = "serde")]
leeway_queue::text_in_files!(
    Arq,
    "Arq",
    "Link-layer retransmission: \"tries=4,delay=20ms\"",
    r"^ *(arq:?)? *((tries|delay) *=[^,]*,? *)*$"
);

/// The fate of one packet on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Number of transmissions.
    pub tries: u32,
    /// The reason if the packet is lost in the end.
    pub lost: Option<Reason>,
}

impl Fate {
    pub const FINE: Fate = Fate { tries: 1, lost: None };
}

/// Losses, retransmission and the order of delivery.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub loss: Loss,
    arq: Option<Arq>,
    /// Time at which the last packet was delivered or given up.
    released: Time,
}

impl Channel {
    pub fn new(loss: Loss, arq: Option<Arq>) -> Self {
        Channel { loss, arq, released: Time::ZERO }
    }

    /// Decides the fate of a packet whose transmission starts.
    pub fn fate(&mut self) -> Fate {
        let Some(arq) = &self.arq else {
            return Fate { tries: 1, lost: self.loss.is_lost().then_some(Reason::Loss) };
        };
        for tries in 1..=arq.tries {
            if !self.loss.is_lost() {
                return Fate { tries, lost: None };
            }
        }
        Fate { tries: arq.tries, lost: Some(Reason::Retries) }
    }

    /// Delivery time of a packet whose transmissions end at `end`: after its retries, and after
    /// the packets before it.
    pub fn release(&mut self, end: Time, fate: Fate) -> Time {
        let delay = self.arq.as_ref().map_or(Duration::ZERO, |arq| arq.delay);
        self.released = self.released.max(end + delay * u64::from(fate.tries - 1));
        self.released
    }
}
