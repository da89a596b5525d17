//! A bounded run of every harness: the committed inputs, then seeded mutations of them.
//!
//! `LEEWAY_FUZZ_SEED` chooses other mutations than those of seed 1, `LEEWAY_FUZZ_TIMES` so many
//! times as many.

use leeway_fuzz::mutate::Mutator;
use leeway_fuzz::{HARNESSES, Harness, named};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn number(variable: &str) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{variable}={text}: {error}")),
        Err(_) => 1,
    }
}

fn bounded(name: &str) {
    let harness = named(name).expect("a harness");
    let seeds = harness.seeds().expect("committed inputs");
    assert!(!seeds.is_empty(), "nothing in {}", harness.folder().display());
    for (seed, bytes) in &seeds {
        play(harness, bytes, seed);
    }
    let known: Vec<Vec<u8>> = seeds.into_iter().map(|(_, bytes)| bytes).collect();
    let seed = number("LEEWAY_FUZZ_SEED");
    let mut mutator = Mutator::new(seed, &known, harness.longest_bytes);
    for run in 0..u64::from(harness.runs) * number("LEEWAY_FUZZ_TIMES") {
        play(harness, &mutator.input(), &format!("seed {seed}, input {run}"));
    }
}

/// Where it fails, the input is kept, so that it can become a committed one.
fn play(harness: &Harness, bytes: &[u8], which: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (harness.play)(bytes))) {
        let path = std::env::temp_dir().join(format!("leeway-fuzz-{}", harness.name));
        std::fs::write(&path, bytes).expect("a place for the input");
        // Not through the test's capture: it has to be seen.
        let _ = writeln!(
            std::io::stderr(),
            "{} fails at {which}: {:?}\nkept as {}; mend it, then commit the input as {}/NAME",
            harness.name,
            bytes.escape_ascii().to_string(),
            path.display(),
            harness.folder().display()
        );
        resume_unwind(panic);
    }
}

macro_rules! harnesses {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                bounded(stringify!($name));
            }
        )*

        #[test]
        fn every_harness_is_played() {
            let played = [$(stringify!($name)),*];
            let all: Vec<_> = HARNESSES.iter().map(|harness| harness.name).collect();
            assert_eq!(all, played);
        }
    };
}

harnesses!(
    authorization,
    clients_toml,
    datagram,
    gateway_toml,
    helper,
    inside,
    question,
    request,
    socks,
    stream,
    token,
    utp,
    utp_packet,
);
