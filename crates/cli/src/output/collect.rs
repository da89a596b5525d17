//! Collects the results of `leeway sim` run by run, and writes the files of `--out`.

use super::atomic::AtomicFile;
use super::charts::{Charts, charts};
use super::report;
use super::series::SeriesFiles;
use super::summary::{Window, summarise};
use crate::Failure;
use crate::plan::{Plan, Point};
use leeway_sim::results::{Run, Series};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Points of a sweep that get charts on the page. The Parquet files have all points.
const POINTS_WITH_CHARTS: usize = 30;

/// Takes the results of a plan in order.
pub struct Collector<'a> {
    folder: Option<PathBuf>,
    series: Option<SeriesFiles>,
    outcomes: Vec<Outcome<'a>>,
}

/// The results of one point.
pub struct Outcome<'a> {
    /// The scenario.
    pub point: &'a Point,
    /// Its runs, without their series.
    pub runs: Vec<Run>,
    /// The summary over all runs; empty until all runs are finished.
    pub windows: Vec<Window>,
    /// Charts of the first run.
    pub charts: Option<Charts>,
}

impl<'a> Collector<'a> {
    /// Prepares for the results of `plan`, which will be written to `folder`.
    pub fn new(plan: &'a Plan, folder: Option<&Path>) -> Result<Collector<'a>, Failure> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::Run(format!("cannot make the folder {}: {error}", folder.display()))
            })?;
        }
        let series = match folder {
            Some(folder) if plan.records() => Some(SeriesFiles::create(folder, plan)?),
            _ => None,
        };
        let outcome = |point| Outcome { point, runs: Vec::new(), windows: Vec::new(), charts: None };
        let outcomes = plan.points.iter().map(outcome).collect();
        Ok(Collector { folder: folder.map(Path::to_owned), series, outcomes })
    }

    /// Takes the next run of the point with index `point`.
    pub fn take(&mut self, point: usize, mut run: Run) -> Result<(), Failure> {
        let outcome = &mut self.outcomes[point];
        let series: Series = std::mem::take(&mut run.series);
        if let Some(files) = &mut self.series {
            files.add(point, run.seed, &series)?;
            if outcome.runs.is_empty() && point < POINTS_WITH_CHARTS {
                outcome.charts = charts(&outcome.point.scenario, run.seed, &series);
            }
        }
        outcome.runs.push(run);
        if outcome.runs.len() == outcome.point.scenario.repetitions as usize {
            outcome.windows = summarise(&outcome.runs);
        }
        Ok(())
    }

    /// The results by point.
    pub fn outcomes(&self) -> &[Outcome<'a>] {
        &self.outcomes
    }

    /// The summary as JSON.
    pub fn json(&self) -> Result<String, Failure> {
        let points = self.outcomes.iter().map(|outcome| PointSummary {
            file: &outcome.point.file,
            title: outcome.point.title(),
            values: outcome
                .point
                .values
                .iter()
                .map(|(path, value)| (path.clone(), serde_json::json!(value)))
                .collect(),
            statistics: &outcome.windows,
            runs: &outcome.runs,
            scenario: &outcome.point.scenario,
        });
        let summary = Summary { leeway: env!("CARGO_PKG_VERSION"), points: points.collect() };
        let json = serde_json::to_string_pretty(&summary)
            .map_err(|error| Failure::Run(format!("cannot write the summary: {error}")))?;
        Ok(json + "\n")
    }

    /// Writes all files to the folder, each in one step. Returns the path of the report page.
    pub fn write(&mut self) -> Result<Option<PathBuf>, Failure> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let page = folder.join("report.html");
        let mut files = Vec::new();
        for (path, text) in [(page.clone(), report::page(self)?), (folder.join("summary.json"), self.json()?)]
        {
            let mut file = AtomicFile::create(&path)?;
            file.write_all(text.as_bytes())?;
            files.push(file);
        }
        if let Some(series) = self.series.take() {
            series.commit()?;
        }
        files.into_iter().try_for_each(AtomicFile::commit)?;
        Ok(Some(page))
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    leeway: &'static str,
    points: Vec<PointSummary<'a>>,
}

#[derive(Serialize)]
struct PointSummary<'a> {
    file: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    values: serde_json::Map<String, serde_json::Value>,
    statistics: &'a [Window],
    runs: &'a [Run],
    scenario: &'a leeway_sim::scenario::Scenario,
}
