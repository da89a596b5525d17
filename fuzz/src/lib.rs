//! Harnesses over everything that reads what strangers send or people write.
//!
//! A [`Harness`] is a plain function of bytes that panics where a promise is broken. Two programs
//! play it: libFuzzer, guided by coverage (`tools/fuzz.sh`), and the test `tests/bounded.rs`,
//! which plays the committed inputs and seeded mutations of them ([`mutate`]) on any compiler.

mod config;
mod gateway;
mod helper;
pub mod mutate;
mod proxy;
mod tunnel;
mod utp;

use std::io;
use std::path::{Path, PathBuf};

/// A function of bytes and what bounds it.
#[derive(Debug)]
pub struct Harness {
    /// Its name; also that of its folder of committed inputs, `seeds/NAME`.
    pub name: &'static str,
    /// Plays one input.
    ///
    /// # Panics
    /// A promise is broken.
    pub play: fn(&[u8]),
    /// Mutated inputs that a bounded run plays: fewer where one takes longer.
    pub runs: u32,
    /// The longest input worth playing, in bytes.
    pub longest_bytes: usize,
}

/// All harnesses, by name.
pub const HARNESSES: &[Harness] = &[
    Harness { name: "authorization", play: gateway::authorization, runs: 20_000, longest_bytes: 256 },
    Harness { name: "clients_toml", play: config::clients_toml, runs: 2_000, longest_bytes: 2048 },
    Harness { name: "datagram", play: tunnel::datagram, runs: 20_000, longest_bytes: 256 },
    Harness { name: "gateway_toml", play: config::gateway_toml, runs: 1_000, longest_bytes: 4096 },
    Harness { name: "helper", play: helper::helper, runs: 10_000, longest_bytes: 4096 },
    Harness { name: "inside", play: tunnel::inside, runs: 10_000, longest_bytes: 512 },
    Harness { name: "question", play: gateway::question, runs: 20_000, longest_bytes: 512 },
    Harness { name: "request", play: proxy::request, runs: 300, longest_bytes: 1024 },
    Harness { name: "socks", play: gateway::socks, runs: 20_000, longest_bytes: 600 },
    Harness { name: "stream", play: tunnel::stream, runs: 20_000, longest_bytes: 4096 },
    Harness { name: "token", play: tunnel::token, runs: 5_000, longest_bytes: 512 },
    Harness { name: "utp", play: utp::utp, runs: 1_000, longest_bytes: 512 },
    Harness { name: "utp_packet", play: utp::utp_packet, runs: 20_000, longest_bytes: 512 },
];

/// The harness of that name.
///
/// # Errors
/// The names that there are.
pub fn named(name: &str) -> Result<&'static Harness, String> {
    HARNESSES.iter().find(|harness| harness.name == name).ok_or_else(|| {
        let names: Vec<_> = HARNESSES.iter().map(|harness| harness.name).collect();
        format!("no harness is called {name:?}; there are {}", names.join(", "))
    })
}

impl Harness {
    /// Where its committed inputs are.
    pub fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(self.name)
    }

    /// Its committed inputs with their names, in the order of names.
    ///
    /// # Errors
    /// The folder or a file in it cannot be read.
    pub fn seeds(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut seeds = Vec::new();
        for entry in std::fs::read_dir(self.folder())? {
            let entry = entry?;
            seeds.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
        }
        seeds.sort();
        Ok(seeds)
    }
}
