//! Summarises the runs of one point: every metric as a mean with its confidence interval.

use super::columns::{Column, GROUP, HARM, LINK, OVERALL, Shown, Unit};
use crate::stats::Estimate;
use leeway_sim::results::{Run, WindowSummary};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// One window of the scenario, over all runs of a point.
#[derive(serde::Serialize)]
pub struct Window {
    /// Name from the scenario.
    pub name: String,
    /// Start, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// Metrics of all flows together.
    pub overall: Cells,
    /// One row per link direction.
    pub links: Vec<Row>,
    /// One row per flow group.
    pub groups: Vec<Row>,
}

/// One link or group.
#[derive(serde::Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Control law of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<String>,
    /// Role of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Number of flows of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Its metrics.
    #[serde(flatten)]
    pub cells: Cells,
}

/// Metrics by key.
#[derive(Default)]
pub struct Cells(pub Vec<Cell>);

/// One metric.
pub struct Cell {
    /// Name in JSON.
    pub key: &'static str,
    /// Heading in tables.
    pub heading: &'static str,
    /// How the value is printed.
    pub unit: Unit,
    /// When a table shows it.
    pub shown: Shown,
    /// Estimate over the runs that have a value; `None` if no run has one.
    pub value: Option<Estimate>,
}

impl Serialize for Cells {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for cell in &self.0 {
            map.serialize_entry(cell.key, &cell.value)?;
        }
        map.end()
    }
}

/// Summarises `runs`, which are runs of one scenario with different seeds.
pub fn summarise(runs: &[Run]) -> Vec<Window> {
    let Some(first) = runs.first() else { return Vec::new() };
    let windows = first.windows.iter().enumerate();
    windows
        .map(|(i, window)| summarise_window(window, runs.iter().filter_map(|run| run.windows.get(i))))
        .collect()
}

fn summarise_window<'a>(
    first: &WindowSummary,
    runs: impl Iterator<Item = &'a WindowSummary> + Clone,
) -> Window {
    let links = first.links.iter().enumerate().map(|(i, link)| Row {
        name: link.name.clone(),
        law: None,
        role: None,
        flows: None,
        cells: Cells(cells(LINK, runs.clone().filter_map(|window| window.links.get(i)))),
    });
    let groups = first.groups.iter().enumerate().map(|(i, group)| {
        let mut row = cells(GROUP, runs.clone().filter_map(|window| window.groups.get(i)));
        let harm = |window: &'a WindowSummary| {
            window.harm.as_ref().and_then(|harm| harm.groups.iter().find(|h| h.name == group.name))
        };
        row.extend(HARM.iter().map(|&(key, heading, of)| {
            let values: Vec<f64> = runs.clone().filter_map(harm).filter_map(of).collect();
            Cell { key, heading, unit: Unit::Share, shown: Shown::Always, value: Estimate::of(&values) }
        }));
        Row {
            name: group.name.clone(),
            law: group.law.clone(),
            role: Some(group.role.clone()),
            flows: Some(group.flows),
            cells: Cells(row),
        }
    });
    Window {
        name: first.name.clone(),
        from_s: first.from_s,
        to_s: first.to_s,
        overall: Cells(cells(OVERALL, runs.clone())),
        links: links.collect(),
        groups: groups.collect(),
    }
}

fn cells<'a, T: 'static>(columns: &[Column<T>], items: impl Iterator<Item = &'a T> + Clone) -> Vec<Cell> {
    columns
        .iter()
        .map(|column| {
            let values: Vec<f64> = items.clone().filter_map(column.of).filter(|v| v.is_finite()).collect();
            let (key, heading, unit, shown) = (column.key, column.heading, column.unit, column.shown);
            Cell { key, heading, unit, shown, value: Estimate::of(&values) }
        })
        .collect()
}
