//! Runs the simulations of a plan on all cores and hands over the results in the order of the
//! plan.
//!
//! When there are fewer runs than threads, each run gets several threads. No thread starts a run
//! that is more than a few runs ahead of the results taken, so that few series are in memory at
//! once.

use crate::Failure;
use crate::plan::Plan;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leeway_sim::results::Run;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

/// Finished runs per thread that may wait for an earlier one.
const AHEAD_PER_THREAD: usize = 4;

/// The number of the next run, and the number of results taken.
#[derive(Default)]
struct Progress {
    next: usize,
    taken: usize,
    stopped: bool,
}

/// Runs the whole plan and gives each result to `take`, in order. Stops at the first failure.
pub fn run_all(
    plan: &Plan,
    jobs: Option<NonZeroUsize>,
    show_progress: bool,
    mut take: impl FnMut(usize, Run) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = jobs.map_or(cores, NonZeroUsize::get);
    let threads = jobs.min(plan.runs.len()).max(1);
    let threads_per_run = jobs / threads;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Failure::Run(format!("cannot start {threads} threads: {error}")))?;
    let bar = progress_bar(plan.runs.len(), show_progress);
    let (progress, changed) = (Mutex::new(Progress::default()), Condvar::new());
    let lock = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let (send, receive) = mpsc::channel();

    let result = pool.in_place_scope(|scope| {
        for _ in 0..threads {
            let (send, progress, changed) = (send.clone(), &progress, &changed);
            scope.spawn(move |_| {
                while let Some(number) = claim(progress, changed, plan.runs.len(), threads) {
                    let (point, seed) = plan.runs[number];
                    let run = || crate::engine::run(&plan.points[point].scenario, seed, threads_per_run);
                    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                        Err("the simulator has a bug and stopped; please report it".into())
                    });
                    if send.send((number, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut waiting = BTreeMap::new();
        let mut taken = 0;
        let result = receive.iter().try_for_each(|(number, outcome)| {
            bar.inc(1);
            waiting.insert(number, outcome);
            while let Some(outcome) = waiting.remove(&taken) {
                let (point, seed) = plan.runs[taken];
                let run = outcome.map_err(|message| failure(plan, point, seed, &message))?;
                take(point, run)?;
                taken += 1;
            }
            lock().taken = taken;
            changed.notify_all();
            Ok(())
        });
        lock().stopped = true;
        changed.notify_all();
        result
    });
    bar.finish_and_clear();
    result
}

/// The number of the next run for a thread; waits while that run is too far ahead. `None` when all
/// runs are taken.
fn claim(progress: &Mutex<Progress>, changed: &Condvar, total: usize, threads: usize) -> Option<usize> {
    let guard = progress.lock().unwrap_or_else(PoisonError::into_inner);
    let far_ahead =
        |p: &mut Progress| !p.stopped && p.next < total && p.next > p.taken + AHEAD_PER_THREAD * threads;
    let mut guard = changed.wait_while(guard, far_ahead).unwrap_or_else(PoisonError::into_inner);
    if guard.stopped || guard.next >= total {
        return None;
    }
    guard.next += 1;
    Some(guard.next - 1)
}

fn failure(plan: &Plan, point: usize, seed: u64, message: &str) -> Failure {
    let point = &plan.points[point];
    let label = match point.label() {
        label if label.is_empty() => String::new(),
        label => format!(" at {label}"),
    };
    Failure::Run(format!("{}{label}, seed {seed}: {message}", point.file))
}

fn progress_bar(total: usize, show: bool) -> ProgressBar {
    if !show || total < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left");
    ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
