//! All constants of the choice, each with its unit and reason.

/// One constant of a [`Policy`].
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Name of its field.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Least allowed value.
    pub least: f64,
    /// Most allowed value.
    pub most: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Why the constant exists, and why it has this value.
    pub reason: &'static str,
}

macro_rules! policy {
    ($($name:ident = $default:literal, $least:literal..=$most:literal, $unit:literal, $reason:literal;)*) => {
        /// The constants by which a client compares gateways and decides to move. See
        /// [`Policy::CONSTANTS`].
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Policy {
            $(#[doc = $reason] #[doc = concat!("Unit: ", $unit, ".")] pub $name: f64,)*
        }

        impl Default for Policy {
            fn default() -> Policy {
                Policy { $($name: $default,)* }
            }
        }

        impl Policy {
            /// All constants, in the order in which they are shown.
            pub const CONSTANTS: &'static [Constant] = &[$(Constant {
                name: stringify!($name), default: $default, least: $least, most: $most, unit: $unit, reason: $reason,
            },)*];

            /// Sets a constant. Returns false if there is none of this name, or the value is
            /// outside its bounds.
            #[must_use]
            pub fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($name) if ($least..=$most).contains(&value) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

policy! {
    round_trips = 11.0, 0.0..=100.0, "round trips",
        "Name, TCP, TLS, request, and seven in which slow start gets from ten segments (RFC 6928) to the object below.";
    object_bytes = 2_000_000.0, 1_000.0..=1_000_000_000.0, "bytes",
        "What the cost of a gateway is the fetch time of: a page with its pictures (Web Almanac 2024: 2 to 3 MB).";
    unknown_bps = 1_000_000.0, 1_000.0..=1_000_000_000.0, "bit/s",
        "Rate expected of a gateway that says nothing of its line and has delivered nothing yet.";
    believe = 2.0, 1.0..=1000.0, "times",
        "A gateway is expected to give at most this many times the most that it delivered to this client. Above 1, \
         because a client seldom takes all that it could.";
    appetite = 2.0, 1.0..=1e9, "times",
        "A rate above this many times the most that the client has used lately counts as no better: it would not be \
         used. Above 1 / (1 - hysteresis), so that a client that is held back still finds more.";
    delivered_bytes = 1_000_000.0, 1_000.0..=1_000_000_000.0, "bytes",
        "A shorter transfer says nothing of a rate: slow start ends it.";
    delivered_s = 1800.0, 1.0..=86_400.0, "seconds",
        "Memory of the most that a gateway delivered. Half an hour spans an evening's changes of load.";
    horizon_s = 600.0, 1.0..=86_400.0, "seconds",
        "What is left of a quota has to last this long: a gateway counts as no faster than what is left over this time.";
    smoothing_s = 60.0, 1.0..=86_400.0, "seconds",
        "Time constant of the averages of round trip, spare rate, load and users: about one probe interval. Longer \
         ones find less, shorter ones move more.";
    hysteresis = 0.45, 0.0..=0.95, "part of the cost",
        "Another gateway has to be cheaper by this part before a client moves. With 0.25 clients move 1.6 times as \
         often and get 0.2 % more.";
    least_gain_s = 0.3, 0.0..=60.0, "seconds",
        "And by this much of a fetch, which is what a person notices.";
    confirm = 2.0, 1.0..=10.0, "probes in a row",
        "Observations that have to agree before a client moves: one may have met a pause in others' transfers.";
    fresh_s = 150.0, 1.0..=3600.0, "seconds",
        "Older observations do not start a move: two probe intervals and a jitter.";
    dwell_s = 300.0, 0.0..=86_400.0, "seconds",
        "A client that moved because another gateway was better stays at least this long.";
    draws = 2.0, 1.0..=10.0, "gateways",
        "A client that needs a gateway draws this many at random, weighted by 1 / cost, and takes the cheapest. The \
         cheapest of all would be the same one for everybody (Mitzenmacher 2000: two is best for old information).";
    first_probes = 8.0, 1.0..=100.0, "gateways",
        "Probed at once at the start, the first of the client's own order. Enough to choose from; all would cost n.";
    rest_s = 600.0, 1.0..=86_400.0, "seconds",
        "A client that made no connection for this long begins anew: it probes as at the start and then takes the \
         cheapest. Nothing is under way that a move could disturb.";
    others = 2.0, 0.0..=100.0, "gateways",
        "Probed in a round beside the current one, whatever the number of gateways (RIMO: two probes instead of n).";
    probe_s = 60.0, 1.0..=3600.0, "seconds",
        "Between two rounds of probes.";
    jitter = 0.25, 0.0..=1.0, "part of an interval",
        "Intervals differ at random by up to this part, so that clients do not act at the same time.";
    retry_s = 5.0, 0.1..=3600.0, "seconds",
        "First retry of a gateway that failed; doubled with each failure in a row.";
    retry_most_s = 300.0, 0.1..=86_400.0, "seconds",
        "Longest time between two retries.";
    return_s = 60.0, 0.0..=3600.0, "seconds",
        "Clients look at a gateway whose pause has ended within this time, at random: not all at once.";
    fault_weight = 1.0, 0.0..=100.0, "part of the cost",
        "Each recent failure or pause adds this part to a gateway's cost, so that an unsteady one is not returned to.";
    fault_s = 1300.0, 1.0..=86_400.0, "seconds",
        "Time constant in which faults are forgotten: a half-life of 15 minutes (RFC 2439; RFC 7196, 2).";
}
