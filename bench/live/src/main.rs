//! Measures the laws on real TCP (as root), and writes the tables of `docs/live.md`.

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leeway_live::case::{Case, matrix};
use leeway_live::laws::Laws;
use leeway_live::live::{self, Run};
use leeway_live::store::{Line, Source, Store};
use leeway_live::{Outcome, report, simulated};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A run whose bottleneck was later than this (99th percentile) is repeated.
const LATE_US: u64 = 1000;
/// Most attempts for one run.
const TRIES: usize = 3;

/// Measure the laws on real TCP between test hosts, and simulate the same networks.
#[derive(Parser)]
#[command(name = "leeway-live", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the cases that are not in the results yet: each live (as root) and simulated.
    Run {
        /// The file of results, lines of JSON.
        #[arg(long, default_value = "bench/live/results.jsonl")]
        results: PathBuf,
        /// Runs of each case.
        #[arg(long, default_value_t = 5)]
        repetitions: u32,
        /// Number of test networks at the same time.
        #[arg(long, default_value_t = 8)]
        jobs: usize,
        /// Only cases whose name contains this text.
        #[arg(long, default_value = "")]
        only: String,
        /// Only list the cases.
        #[arg(long)]
        list: bool,
    },
    /// Write the tables of the results into a page.
    Report {
        /// The file of results.
        #[arg(long, default_value = "bench/live/results.jsonl")]
        results: PathBuf,
        /// The page; its lines between `<!-- NAME -->` and `<!-- end -->` are replaced.
        #[arg(long, default_value = "docs/live.md")]
        page: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run { list: true, only, .. } => {
            matrix()
                .iter()
                .map(Case::name)
                .filter(|name| name.contains(&only))
                .for_each(|name| println!("{name}"));
            Ok(())
        }
        Command::Run { results, repetitions, jobs, only, .. } => {
            measure(&results, repetitions, jobs.max(1), &only)
        }
        Command::Report { results, page } => report::write(&results, &page),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leeway-live: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(results: &Path, repetitions: u32, jobs: usize, only: &str) -> Outcome<()> {
    let cases: Vec<Case> = matrix().into_iter().filter(|case| case.name().contains(only)).collect();
    let store = Store::open(results)?;
    for case in &cases {
        for repetition in (1..=repetitions).filter(|&r| !store.has(&case.name(), Source::Simulated, r)) {
            if let Some(figures) = simulated::run(case, repetition.into())? {
                let run = Run { figures, late_p99_us: 0, overruns: 0 };
                store.add(Line { case: case.name(), repetition, source: Source::Simulated, run })?;
            }
        }
    }
    // Every case once before any case twice, so that results of a stopped campaign cover all
    // cases.
    let all = (1..=repetitions).flat_map(|repetition| cases.iter().map(move |case| (case, repetition)));
    let todo: Vec<(&Case, u32)> =
        all.filter(|(case, r)| !store.has(&case.name(), Source::Live, *r)).collect();
    let laws = Laws::load(todo.iter().filter_map(|(case, _)| case.law.as_deref()))?;
    let style = ProgressStyle::with_template("{pos} of {len} runs, {elapsed} gone, {eta} left  {wide_msg}")?;
    let bar = ProgressBar::with_draw_target(Some(todo.len() as u64), ProgressDrawTarget::stderr())
        .with_style(style);
    let next = AtomicUsize::new(0);
    let failures = std::thread::scope(|scope| {
        let worker = || -> Outcome<()> {
            while let Some((case, repetition)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                bar.set_message(case.name());
                let run = punctual(case, &laws).map_err(|error| format!("{}: {error}", case.name()))?;
                store.add(Line { case: case.name(), repetition: *repetition, source: Source::Live, run })?;
                bar.inc(1);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let ended = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a thread has died".into())));
        ended.filter_map(Result::err).map(|error| error.to_string()).collect::<Vec<_>>()
    });
    bar.finish_with_message("");
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// The least late of up to [`TRIES`] runs. Stops at the first run that is not late.
fn punctual(case: &Case, laws: &Laws) -> Outcome<Run> {
    let folder = tempfile::tempdir()?;
    let mut run = live::run(case, laws, folder.path())?;
    for _ in 1..TRIES {
        if run.overruns == 0 && run.late_p99_us <= LATE_US {
            break;
        }
        let again = live::run(case, laws, folder.path())?;
        if (again.overruns, again.late_p99_us) < (run.overruns, run.late_p99_us) {
            run = again;
        }
    }
    Ok(run)
}
