//! The report page: one HTML file with tables and interactive charts, which loads no other file.

use super::collect::{Collector, Outcome};
use super::columns::Shown;
use super::format;
use super::summary::{Cells, Row, Window};
use super::{story, terms};
use crate::Failure;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// The whole page.
pub fn page(results: &Collector) -> Result<String, Failure> {
    let outcomes = results.outcomes();
    let title = match outcomes {
        [] => "Leeway",
        [first, ..] => first.point.title(),
    };
    let points: Vec<Value> = outcomes.iter().map(point).collect();
    let data = json!({ "version": env!("CARGO_PKG_VERSION"), "points": points });
    let data = serde_json::to_string(&data)
        .map_err(|error| Failure::Run(format!("cannot write the report: {error}")))?
        // Without `<`, nothing in the data can end the script element around it.
        .replace('<', "\\u003c");
    let parts = [
        ("{{title}}", escape(title)),
        ("{{style}}", format!("{UPLOT_STYLE}\n{STYLE}")),
        ("{{uplot}}", UPLOT_SCRIPT.to_owned()),
        ("{{script}}", SCRIPT.to_owned()),
        ("{{data}}", data),
    ];
    // In one pass, so that a name inside an inserted part is not replaced.
    let mut page = String::new();
    let mut rest = PAGE;
    for (name, text) in &parts {
        let (before, after) = rest
            .split_once(name)
            .ok_or_else(|| Failure::Run(format!("the page template lacks {name} in its place")))?;
        page += before;
        page += text;
        rest = after;
    }
    Ok(page + rest)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn point(outcome: &Outcome) -> Value {
    let scenario = &outcome.point.scenario;
    let marks = scenario.event.iter().map(|event| json!({ "at_s": event.at.secs_f64(), "link": event.link }));
    let windows = scenario
        .window
        .iter()
        .map(|window| json!({ "name": window.name, "from_s": window.from.secs_f64(), "to_s": window.to.secs_f64() }));
    json!({
        "title": outcome.point.title(),
        "file": outcome.point.file,
        "label": outcome.point.label(),
        "description": scenario.description,
        "seeds": outcome.runs.iter().map(|run| run.seed).collect::<Vec<_>>(),
        "duration_s": scenario.duration.secs_f64(),
        "links": scenario.links().iter().map(|link| json!({
            "name": link.name,
            "rate_bps": link.forward.rate.map(|rate| rate.bits_per_sec()),
        })).collect::<Vec<_>>(),
        "events": marks.collect::<Vec<_>>(),
        "marks": windows.collect::<Vec<_>>(),
        "tables": outcome.windows.iter().map(tables).collect::<Vec<_>>(),
        "charts": outcome.charts,
    })
}

/// The tables of a window, with numbers formatted as on the terminal.
fn tables(window: &Window) -> Value {
    json!({
        "name": window.name,
        "span": format!("{} to {}", format::seconds(window.from_s), format::seconds(window.to_s)),
        "story": story::tell(window),
        "overall": overall(&window.overall),
        "links": table(&window.links, "link"),
        "groups": table(&window.groups, "flows"),
    })
}

/// For each overall metric: heading, value, meaning.
fn overall(cells: &Cells) -> Vec<[String; 3]> {
    let text = |cell: &super::summary::Cell| {
        let about = terms::about(cell.key).unwrap_or_default();
        Some([cell.heading.to_owned(), format::estimate(&cell.value?, cell.unit), about.to_owned()])
    };
    cells.0.iter().filter_map(text).collect()
}

fn table(rows: &[Row], name: &str) -> Value {
    let columns = rows.first().map_or(0, |row| row.cells.0.len());
    let shown = |column: &usize| {
        rows.iter().any(|row| {
            let cell = &row.cells.0[*column];
            match (cell.shown, cell.value) {
                (Shown::Always, Some(_)) => true,
                (Shown::Nonzero, Some(value)) => value.max > 0.0,
                _ => false,
            }
        })
    };
    let mut shown: Vec<usize> = (0..columns).filter(shown).collect();
    // Harm first: it is what a reader of a background flow asks for.
    shown.sort_by_key(|&i| !rows[0].cells.0[i].key.starts_with("harm_"));
    let heads = shown.iter().map(|&i| rows[0].cells.0[i].heading);
    let abouts = shown.iter().map(|&i| terms::about(rows[0].cells.0[i].key).unwrap_or_default());
    let body = rows.iter().map(|row| {
        let cells = shown.iter().map(|&i| &row.cells.0[i]);
        let texts = cells.map(|cell| cell.value.map_or("-".into(), |value| format::estimate(&value, cell.unit)));
        json!({
            "name": row.name, "law": row.law, "role": row.role, "flows": row.flows, "cells": texts.collect::<Vec<_>>()
        })
    });
    json!({
        "of": name, "heads": heads.collect::<Vec<_>>(), "abouts": abouts.collect::<Vec<_>>(),
        "rows": body.collect::<Vec<_>>()
    })
}
