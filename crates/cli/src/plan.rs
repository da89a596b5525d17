//! The plan of `leeway sim`: every point of every scenario file, each with its seeds.

use crate::Failure;
use crate::args::Sim;
use leeway_sim::scenario::{Scenario, ScenarioFile, Series, SweepValue, limits};

/// One scenario with all values fixed.
pub struct Point {
    /// The file it comes from.
    pub file: String,
    /// The swept fields, each with its value at this point.
    pub values: Vec<(String, SweepValue)>,
    /// The scenario.
    pub scenario: Scenario,
}

impl Point {
    /// The swept fields with their values as text; empty without a sweep.
    pub fn label(&self) -> String {
        self.values.iter().map(|(path, value)| format!("{path} = {value}")).collect::<Vec<_>>().join(", ")
    }

    /// The scenario's title, or the name of its file.
    pub fn title(&self) -> &str {
        match self.scenario.title.as_str() {
            "" => &self.file,
            title => title,
        }
    }
}

/// Everything that is to be run.
pub struct Plan {
    /// In the order of files, then of sweeps.
    pub points: Vec<Point>,
    /// Index of the point and seed, in order.
    pub runs: Vec<(usize, u64)>,
}

impl Plan {
    /// Reads and checks every file before anything is run.
    pub fn new(args: &Sim) -> Result<Plan, Failure> {
        let mut points = Vec::new();
        for path in &args.files {
            let mut file = ScenarioFile::load(path)?;
            // An error of the file itself is shown with the file's text, before options change it.
            file.scenario()?;
            args.set.iter().try_for_each(|assignment| file.set(assignment))?;
            args.sweep.iter().try_for_each(|assignment| file.sweep(assignment))?;
            let options = [
                args.seed.map(|seed| format!("seed={seed}")),
                args.repetitions.map(|number| format!("repetitions={number}")),
                args.series.map(|every| format!("series.every={every}")),
            ];
            options.into_iter().flatten().try_for_each(|assignment| file.set(&assignment))?;
            for point in file.points()? {
                let (file, values) = (file.name().to_owned(), point.values);
                points.push(Point { file, values, scenario: point.scenario });
            }
        }
        let total: u64 = points.iter().map(|point| u64::from(point.scenario.repetitions)).sum();
        if total > limits::RUNS {
            return Err(Failure::Usage(format!(
                "these files and options make {total} runs; at most {} are possible",
                limits::RUNS
            )));
        }
        let seeds = |(index, point): (usize, &Point)| {
            let first = point.scenario.seed;
            (0..u64::from(point.scenario.repetitions)).map(move |i| (index, first.saturating_add(i)))
        };
        let runs = points.iter().enumerate().flat_map(seeds).collect();
        Ok(Plan { points, runs })
    }

    /// Warnings about the scenarios. A warning that concerns several points of a sweep appears
    /// once.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        for point in &self.points {
            for warning in point.scenario.warnings() {
                let help = warning.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
                let text = format!("{}: warning: {warning}{help}", point.file);
                if !said.contains(&text) {
                    said.push(text);
                }
            }
        }
        said
    }

    /// Whether any run records a series.
    pub fn records(&self) -> bool {
        self.points.iter().any(|point| matches!(point.scenario.series, Some(Series { .. })))
    }
}
