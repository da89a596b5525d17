//! `leeway demo`: a small community on this machine that shares a line through a gateway, with
//! figures.

mod browser;
mod community;
mod figures;
mod simulated;

use crate::Failure;
use crate::ending::Ending;
use crate::output::stdout;
use clap::Args;
use community::Community;
use figures::{Figures, conclusion, heading, without};
use simulated::{Neighbours, play};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// What `leeway demo --help` ends with.
pub const HELP: &str = "Examples:\n  \
    sudo leeway demo\n      \
    a home, three neighbours and a gateway on a line of 4 Mbit/s, and the owner's page\n  \
    sudo leeway demo --seconds 60\n      \
    the same for a minute\n  \
    leeway demo\n      \
    without root: the same community in the simulator, in a few seconds\n\n\
    The hosts are network namespaces of this machine; no packet leaves the machine. At the end the \
    hosts, programs and files of the demo are removed, also after an error, Ctrl-C or SIGTERM.\n\n\
    Exit codes: 0 the demo ended, perhaps by Ctrl-C or SIGTERM, 1 it failed, 2 bad usage.";

/// The line: its rate down (also as a number, in bit/s), its rate up, its delay and its buffer.
const DOWN: &str = "4 Mbit/s";
const DOWN_BPS: f64 = 4e6;
const UP: &str = "1 Mbit/s";
const DELAY: &str = "15 ms";
const BUFFER: &str = "64 pkt";
/// The home's traffic: pages per second, and bytes of a page.
const PAGES_A_SECOND: f64 = 1.0;
const PAGE_BYTES: u64 = 40_000;

/// The kind of traffic of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uses {
    Pages,
    Download,
    Film,
}

/// The traffic of a neighbour as a load: each connection requests one object after the other.
struct Asks {
    connections: usize,
    object_bytes: u64,
    /// Time from a response to the next request, evenly distributed between these two.
    think: Option<(Duration, Duration)>,
}

impl Uses {
    fn asks(self) -> Asks {
        let ms = Duration::from_millis;
        let (connections, object_bytes, think) = match self {
            Uses::Pages => (4, PAGE_BYTES, Some((ms(500), ms(2000)))),
            Uses::Download => (1, 4_000_000, None),
            // On an idle line a piece takes about half a second, so the film has about 1 Mbit/s.
            Uses::Film => (1, 125_000, Some((ms(500), ms(500)))),
        };
        Asks { connections, object_bytes, think }
    }
}

/// A neighbour.
struct Neighbour {
    name: &'static str,
    uses: Uses,
}

const NEIGHBOURS: [Neighbour; 3] = [
    Neighbour { name: "ann", uses: Uses::Pages },
    Neighbour { name: "ben", uses: Uses::Download },
    Neighbour { name: "cleo", uses: Uses::Film },
];

/// Length of a round, and the number of rounds at the start in which the home is alone.
const ROUND: Duration = Duration::from_secs(5);
const ALONE: u32 = 2;
/// Seconds that the simulator plays.
const SIMULATED_S: u64 = 60;
/// Length of a demo without `--seconds`.
const NEVER: Duration = Duration::from_secs(30 * 86_400);
/// Default port of the page.
const PORT: u16 = 8080;

/// The options of `leeway demo`.
#[derive(Args)]
pub struct Demo {
    /// End the demo after N seconds. Without this, Ctrl-C ends it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=86_400))]
    seconds: Option<u32>,
    /// Use the simulator instead of network namespaces, as the demo does without root.
    #[arg(long)]
    simulate: bool,
    /// Port of the owner's page on this machine; by default 8080, or a free one if 8080 is in use.
    #[arg(long, value_name = "PORT", conflicts_with = "simulate")]
    port: Option<u16>,
    /// Only print the page's address, and open no browser.
    #[arg(long)]
    no_browser: bool,
}

/// Shows the community, live as root, else simulated.
pub fn run(demo: &Demo) -> Result<(), Failure> {
    let mut out = stdout();
    writeln!(
        out,
        "A home and three neighbours share a line of {DOWN} (up {UP}, 30 ms):\n\
         ann opens pages, ben downloads files, cleo watches a film of 1 Mbit/s.\n"
    )?;
    if demo.simulate || !rustix::process::geteuid().is_root() {
        return demo.simulated(&mut out);
    }
    demo.live(&mut out)
}

impl Demo {
    fn simulated(&self, out: &mut impl Write) -> Result<(), Failure> {
        if !self.simulate {
            writeln!(
                out,
                "Without root, the demo runs in the simulator.\nFor real programs and the owner's page: sudo leeway demo\n"
            )?;
        }
        let seconds = self.seconds.map_or(SIMULATED_S, u64::from);
        heading(out)?;
        let mut shown = Vec::new();
        for (label, neighbours) in [
            ("alone", Neighbours::Away),
            ("with neighbours", Neighbours::Sharing),
            ("without a gateway", Neighbours::Unheld),
        ] {
            let figures = play(label, neighbours, seconds)?;
            figures.print(out)?;
            shown.push(figures);
        }
        conclude(&shown[0], &shown[1], out)?;
        if let Some(words) = without(&shown[0], &shown[2]) {
            writeln!(out, "{words}")?;
        }
        Ok(out.flush()?)
    }

    fn live(&self, out: &mut impl Write) -> Result<(), Failure> {
        let ending = Ending::heard()?;
        let listener = self.listener()?;
        let at = listener.local_addr()?;
        let mut community = Community::up(listener).map_err(|failure| match failure {
            Failure::Run(why) | Failure::Usage(why) => {
                Failure::Run(format!("{why}\nThe same community in the simulator: leeway demo --simulate"))
            }
            other => other,
        })?;
        let page = format!("http://{at}/");
        writeln!(out, "The owner's page: {page}")?;
        writeln!(out, "Open it on this machine. name: owner   password: {}", community.password)?;
        let ends = self
            .seconds
            .map_or("Ctrl-C ends the demo".into(), |seconds| format!("The demo ends after {seconds} s"));
        writeln!(out, "{ends}, and everything of it is removed.\n")?;
        if !self.no_browser {
            browser::open(&page);
        }
        heading(out)?;
        out.flush()?;
        let shown = self.rounds(&mut community, &ending, out);
        community.down()?;
        let shown = shown?;
        writeln!(out, "\nEverything of the demo is removed.")?;
        let (alone, beside): (Vec<Figures>, Vec<Figures>) =
            shown.into_iter().partition(|figures| figures.neighbours_bps.is_none());
        if beside.is_empty() {
            return Ok(());
        }
        let [alone, beside] =
            [("alone", alone), ("with neighbours", beside)].map(|(label, all)| Figures::mean(label, &all));
        writeln!(out)?;
        alone.print(out)?;
        beside.print(out)?;
        conclude(&alone, &beside, out)?;
        writeln!(out, "What it would be without a gateway: leeway demo --simulate")?;
        Ok(out.flush()?)
    }

    /// Runs round after round until the end, and prints a row for each.
    fn rounds(
        &self,
        community: &mut Community,
        ending: &Ending,
        out: &mut impl Write,
    ) -> Result<Vec<Figures>, Failure> {
        let whole = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let count = whole.map_or(u32::MAX, |whole| (whole.as_secs() / ROUND.as_secs()).max(2) as u32);
        let length = whole.map_or(ROUND, |whole| whole / count);
        let alone = ALONE.min(count / 2);
        let begin = Instant::now();
        let at = |round: u32| begin + length * round;
        let mut shown = Vec::new();
        let mut before = vec![0; NEIGHBOURS.len()];
        for number in 0..count {
            if number == alone {
                community.neighbours(at(number), begin + whole.unwrap_or(NEVER));
            }
            let round = community.round(at(number), length, number.into());
            if !ending.sleep_until(at(number + 1)) {
                break;
            }
            let got = community.got()?;
            let rate = |(now, before): (&u64, &u64)| 8.0 * now.saturating_sub(*before) as f64;
            let rates =
                got.iter().zip(&before).map(|pair| rate(pair) / length.as_secs_f64()).collect::<Vec<_>>();
            before = got;
            let to_s = (length * (number + 1)).as_secs();
            let (label, rates) = match number < alone {
                true => (format!("{to_s:>4} s  alone"), None),
                false => (format!("{to_s:>4} s  with neighbours"), Some(rates)),
            };
            let figures = round.end(&label, rates)?;
            figures.print(out)?;
            out.flush()?;
            shown.push(figures);
        }
        Ok(shown)
    }

    /// Listens at the local address of the page.
    fn listener(&self) -> Result<TcpListener, Failure> {
        let bind = |port: u16| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        match self.port {
            Some(port) => bind(port).map_err(|error| {
                Failure::Usage(format!(
                    "cannot show the page at 127.0.0.1:{port}: {error}; give another --port"
                ))
            }),
            None => Ok(bind(PORT).or_else(|_| bind(0))?),
        }
    }
}

fn conclude(alone: &Figures, beside: &Figures, out: &mut impl Write) -> Result<(), Failure> {
    if let Some(words) = conclusion(alone, beside, DOWN_BPS) {
        writeln!(out, "\n{words}")?;
    }
    Ok(out.flush()?)
}
