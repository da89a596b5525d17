//! Stores results as lines of JSON, so that an interrupted campaign continues where it stopped.

use crate::Outcome;
use crate::figures::Figures;
use crate::live::Run;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// One run of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The case by name.
    pub case: String,
    /// Number of the run, from 1.
    pub repetition: u32,
    /// Whether it was real traffic or the simulator.
    pub source: Source,
    /// The figures, rounded to the precision of the measurement.
    #[serde(flatten)]
    pub run: Run,
}

/// The source of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Real TCP.
    Live,
    /// The simulator.
    Simulated,
}

/// A file of results, to which several threads can add.
#[derive(Debug)]
pub struct Store {
    file: Mutex<File>,
    there: BTreeSet<(String, Source, u32)>,
}

impl Store {
    /// Opens a file, and makes it if it does not exist. An incomplete last line, of a killed
    /// campaign, is removed.
    ///
    /// # Errors
    /// The file system's; a line that is not a result.
    pub fn open(path: &Path) -> Outcome<Store> {
        if path.exists() {
            let text = std::fs::read_to_string(path)?;
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let lines = read(path)?;
        let there = lines.into_iter().map(|line| (line.case, line.source, line.repetition)).collect();
        Ok(Store { file: Mutex::new(file), there })
    }

    /// Whether the file contained this run when it was opened.
    pub fn has(&self, case: &str, source: Source, repetition: u32) -> bool {
        self.there.contains(&(case.to_owned(), source, repetition))
    }

    /// Adds a result.
    ///
    /// # Errors
    /// The file system's.
    pub fn add(&self, mut line: Line) -> Outcome<()> {
        line.run.figures = rounded(line.run.figures);
        let mut value = serde_json::to_value(&line)?;
        if let Some(figures) = value["figures"].as_object_mut() {
            figures.retain(|_, figure| !figure.is_null());
        }
        let text = format!("{value}\n");
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(file.write_all(text.as_bytes())?)
    }
}

/// All results of a file.
///
/// # Errors
/// The file system's; a line that is not a result.
pub fn read(path: &Path) -> Outcome<Vec<Line>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| format!("{}:{}: {error}", path.display(), number + 1).into())
    };
    text.lines().enumerate().map(parse).collect()
}

fn rounded(figures: Figures) -> Figures {
    let to = |value: Option<f64>, unit: f64| value.map(|value| (value / unit).round() / (1.0 / unit).round());
    Figures {
        alone: to(figures.alone, 1e-4),
        alone_p50_ms: to(figures.alone_p50_ms, 1e-2),
        alone_p95_ms: to(figures.alone_p95_ms, 1e-2),
        background: to(figures.background, 1e-4),
        primary: to(figures.primary, 1e-4),
        beside_p50_ms: to(figures.beside_p50_ms, 1e-2),
        beside_p95_ms: to(figures.beside_p95_ms, 1e-2),
        yield_s: to(figures.yield_s, 1e-2),
        reclaim_s: to(figures.reclaim_s, 1e-2),
        voice_p50_ms: to(figures.voice_p50_ms, 1e-2),
        voice_p95_ms: to(figures.voice_p95_ms, 1e-2),
        voice_loss: to(figures.voice_loss, 1e-4),
    }
}
