//! Writes the tables of `docs/live.md`: medians of the runs, with the simulator's value for the
//! same network in brackets. Two other pages have the table that compares `ebb` with LEDBAT.

use crate::Outcome;
use crate::case::{
    BASE, Beside, Case, FAR, FAST_LAWS, LAWS, NETWORKS, Network, VARIANTS, compared, without_delayed_acks,
};
use crate::figures::{Figures, median};
use crate::store::{Line, Source, read};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The law that `ebb` is compared with.
const LEDBAT: &str = LAWS[0];
/// Largest difference of two shares of the link that still counts as agreement.
const AGREED: f64 = 0.1;

/// The pages beside that of the live measurements which compare `ebb` with LEDBAT.
const COMPARING: [&str; 2] = ["run.md", "ebb-paper.md"];

/// Writes the tables of a file of results into a page and into [`COMPARING`], between the lines
/// `<!-- NAME -->` and `<!-- end -->`.
///
/// # Errors
/// A file cannot be used, or a page lacks the place of a table.
pub fn write(results: &Path, page: &Path) -> Outcome<()> {
    let medians = Medians::of(&read(results)?);
    let pages = pages(page, &medians);
    // Every page is made before the first one is written.
    let texts = pages.iter().map(|(page, tables)| filled(page, tables)).collect::<Outcome<Vec<_>>>()?;
    for ((page, _), text) in pages.iter().zip(texts) {
        std::fs::write(page, text).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    Ok(())
}

/// A page and its tables, by name.
type Page = (PathBuf, Vec<(&'static str, String)>);

fn pages(page: &Path, medians: &Medians) -> Vec<Page> {
    let mut pages = vec![(page.to_owned(), tables(medians))];
    for name in COMPARING {
        pages.push((page.with_file_name(name), vec![("ebb and LEDBAT", medians.ebb_and_ledbat())]));
    }
    pages
}

/// The text of a page with these tables.
fn filled(page: &Path, tables: &[(&str, String)]) -> Outcome<String> {
    let mut text = std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    for (name, table) in tables {
        text = replaced(&text, name, table)
            .ok_or_else(|| format!("{}: there is no <!-- {name} -->", page.display()))?;
    }
    Ok(text)
}

/// The tables of `docs/live.md`, by name.
fn tables(medians: &Medians) -> Vec<(&'static str, String)> {
    vec![
        ("cubic", medians.primary(Beside::Cubic)),
        ("bbr", medians.primary(Beside::Bbr)),
        ("same", medians.same()),
        ("voice", medians.voice()),
        ("keeps", medians.networks(|medians, case| medians.keeps(case))),
        ("alone", medians.networks(|medians, case| medians.share(case, |figures| figures.alone))),
        ("delay", medians.networks(|medians, case| medians.ms(case, |figures| figures.alone_p50_ms))),
        ("yield", medians.networks(|medians, case| medians.seconds(case, |figures| figures.yield_s))),
        ("reclaim", medians.networks(|medians, case| medians.seconds(case, |figures| figures.reclaim_s))),
        ("fast", medians.fast()),
        ("differences", medians.differences()),
        ("at once", medians.at_once()),
        ("runs", medians.runs()),
    ]
}

/// `text` with the table in its place; `None` if there is no such place.
fn replaced(text: &str, name: &str, table: &str) -> Option<String> {
    let mark = format!("<!-- {name} -->\n");
    let from = text.find(&mark)? + mark.len();
    let to = from + text[from..].find("<!-- end -->")?;
    Some(format!("{}\n{table}\n{}", &text[..from], &text[to..]))
}

/// All runs, by case and source.
struct Medians {
    runs: BTreeMap<(String, Source), Vec<Line>>,
}

impl Medians {
    fn of(lines: &[Line]) -> Medians {
        let mut runs: BTreeMap<_, Vec<Line>> = BTreeMap::new();
        for line in lines {
            runs.entry((line.case.clone(), line.source)).or_default().push(line.clone());
        }
        Medians { runs }
    }

    /// The median of a figure; `None` if at least half of the runs have no value.
    fn value(&self, case: &Case, source: Source, figure: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let runs = self.runs.get(&(case.name(), source))?;
        let values: Vec<f64> = runs.iter().filter_map(|line| figure(&line.run.figures)).collect();
        (2 * values.len() > runs.len()).then(|| median(values.into_iter()))?
    }

    /// A cell: the live value, and the simulated value in brackets.
    fn pair(
        &self,
        case: &Case,
        figure: impl Fn(&Figures) -> Option<f64>,
        spell: impl Fn(f64) -> String,
    ) -> String {
        let one = |source| match self.runs.get(&(case.name(), source)) {
            None => String::new(),
            Some(_) => self.value(case, source, &figure).map_or("–".into(), &spell),
        };
        match (one(Source::Live), one(Source::Simulated)) {
            (live, simulated) if simulated.is_empty() => live,
            (live, simulated) => format!("{live} ({simulated})"),
        }
    }

    fn share(&self, case: &Case, figure: impl Fn(&Figures) -> Option<f64>) -> String {
        self.pair(case, figure, |share| format!("{:.1}", share * 100.0))
    }

    fn percent(&self, case: &Case, figure: impl Fn(&Figures) -> Option<f64>) -> String {
        self.pair(case, figure, |share| format!("{:.0}", share * 100.0))
    }

    fn ms(&self, case: &Case, figure: impl Fn(&Figures) -> Option<f64>) -> String {
        self.pair(case, figure, |ms| format!("{ms:.1}"))
    }

    fn seconds(&self, case: &Case, figure: impl Fn(&Figures) -> Option<f64>) -> String {
        self.pair(case, figure, |seconds| format!("{seconds:.1}"))
    }

    /// Share of the primary flow, relative to its share without the background flow.
    fn kept(&self, case: &Case, source: Source) -> Option<f64> {
        let alone = Case::new(case.network, None, case.beside);
        let primary = |case: &Case| self.value(case, source, |figures| figures.primary);
        Some(primary(case)? / primary(&alone)?)
    }

    fn keeps(&self, case: &Case) -> String {
        let one = |source| self.kept(case, source).map(|kept| format!("{:.1}", kept * 100.0));
        match (one(Source::Live), one(Source::Simulated)) {
            (live, None) => live.unwrap_or("–".into()),
            (live, Some(simulated)) => format!("{} ({simulated})", live.unwrap_or("–".into())),
        }
    }

    /// Table: every law on the base network, with a primary flow.
    fn primary(&self, beside: Beside) -> String {
        let mut table = String::from(
            "| law | alone: % of the link | delay p50 | p95, ms | primary keeps, % | background beside it, % | delay p50, ms | \
             yields, s | reclaims, s |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for law in laws(true) {
            let case = Case::new(BASE, Some(law), beside);
            let _ = writeln!(
                table,
                "| `{law}` | {} | {} | {} | {} | {} | {} | {} | {} |",
                self.share(&case, |f| f.alone),
                self.ms(&case, |f| f.alone_p50_ms),
                self.ms(&case, |f| f.alone_p95_ms),
                self.keeps(&case),
                self.share(&case, |f| f.background),
                self.ms(&case, |f| f.beside_p50_ms),
                self.seconds(&case, |f| f.yield_s),
                self.seconds(&case, |f| f.reclaim_s),
            );
        }
        let case = Case::new(BASE, None, beside);
        let _ = writeln!(
            table,
            "| none | | | | 100 | | {} | {} | |",
            self.ms(&case, |f| f.beside_p50_ms),
            self.seconds(&case, |f| f.yield_s)
        );
        table
    }

    fn same(&self) -> String {
        let mut table = String::from(
            "| law | first, % of the link | latecomer, % | delay p50 | p95, ms |\n|---|---|---|---|---|\n",
        );
        for law in laws(true) {
            let case = Case::new(BASE, Some(law), Beside::Same);
            let _ = writeln!(
                table,
                "| `{law}` | {} | {} | {} | {} |",
                self.share(&case, |f| f.background),
                self.share(&case, |f| f.primary),
                self.ms(&case, |f| f.beside_p50_ms),
                self.ms(&case, |f| f.beside_p95_ms),
            );
        }
        table
    }

    fn voice(&self) -> String {
        let mut table = String::from(
            "| law | background, % of the link | added to the call's delay: p50 | p95, ms | call loses, % |\n|---|---|---|---|---|\n",
        );
        for law in laws(true) {
            let case = Case::new(BASE, Some(law), Beside::Voice);
            let _ = writeln!(
                table,
                "| `{law}` | {} | {} | {} | {} |",
                self.share(&case, |f| f.background),
                self.ms(&case, |f| f.voice_p50_ms),
                self.ms(&case, |f| f.voice_p95_ms),
                self.share(&case, |f| f.voice_loss),
            );
        }
        table
    }

    /// Table: a figure by law and network, with CUBIC as primary flow.
    fn networks(&self, cell: impl Fn(&Medians, &Case) -> String) -> String {
        let networks: Vec<Network> = std::iter::once(BASE).chain(NETWORKS).collect();
        let mut table = String::from("| network |");
        for law in laws(false) {
            let _ = write!(table, " `{law}` |");
        }
        let _ = writeln!(table, "\n|---|{}", "---|".repeat(LAWS.len()));
        for network in networks {
            let _ = write!(table, "| {} |", words(&network));
            for law in laws(false) {
                let case = Case::new(network, Some(law), Beside::Cubic);
                let _ = write!(table, " {} |", cell(self, &case));
            }
            table.push('\n');
        }
        table
    }

    /// Table: the laws on the fast line.
    fn fast(&self) -> String {
        let mut table = String::from(
            "| law | alone: % of the link | delay p50 | p95, ms | primary keeps, % | yields, s | reclaims, s |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for law in FAST_LAWS {
            let case = Case::fast(Some(law));
            let _ = writeln!(
                table,
                "| `{law}` | {} | {} | {} | {} | {} | {} |",
                self.share(&case, |f| f.alone),
                self.ms(&case, |f| f.alone_p50_ms),
                self.ms(&case, |f| f.alone_p95_ms),
                self.keeps(&case),
                self.seconds(&case, |f| f.yield_s),
                self.seconds(&case, |f| f.reclaim_s),
            );
        }
        table
    }

    /// Table: what a user of `ebb` gains over LEDBAT with 25 ms, and loses; live values.
    fn ebb_and_ledbat(&self) -> String {
        type Cell<'a> = (&'a dyn Fn(&str) -> Case, &'a dyn Fn(&Case) -> Option<f64>);
        let cubic = |network: Network| move |law: &str| Case::new(network, Some(law), Beside::Cubic);
        let beside = |beside: Beside| move |law: &str| Case::new(BASE, Some(law), beside);
        let [short, _, _, codel, pie, red, ..] = NETWORKS;
        let live =
            |figure: fn(&Figures) -> Option<f64>| move |case: &Case| self.value(case, Source::Live, figure);
        let percent =
            |figure: fn(&Figures) -> Option<f64>| move |case: &Case| Some(live(figure)(case)? * 100.0);
        let keeps = |case: &Case| Some(self.kept(case, Source::Live)? * 100.0);
        let row = |words: &str, unit: &str, digits: usize, cells: &[Cell]| {
            let of = |law: &str| {
                let values: Vec<String> = cells
                    .iter()
                    .map(|(case, value)| {
                        value(&case(law)).map_or("–".into(), |value| format!("{value:.digits$}"))
                    })
                    .collect();
                format!("{} {unit}", values.join("; "))
            };
            format!("| {words} | {} | {} |\n", of("ebb"), of(LEDBAT))
        };
        let (base, far, fast) = (cubic(BASE), cubic(FAR), |law: &str| Case::fast(Some(law)));
        let (bbr, same, voice) = (beside(Beside::Bbr), beside(Beside::Same), beside(Beside::Voice));
        let (pie, codel, red, short) = (cubic(pie), cubic(codel), cubic(red), cubic(short));
        let (alone, p50, p95) = (percent(|f| f.alone), live(|f| f.alone_p50_ms), live(|f| f.alone_p95_ms));
        let (yields, reclaims) = (live(|f| f.yield_s), live(|f| f.reclaim_s));
        let (first, second) = (percent(|f| f.background), percent(|f| f.primary));
        let call = live(|f| f.voice_p95_ms);
        [
            format!("| | `ebb` | `{LEDBAT}` |\n|---|---|---|\n"),
            row("uses of an idle line; at 600 ms", "%", 0, &[(&base, &alone), (&far, &alone)]),
            row(
                "queue that it makes alone, median; 95th percentile",
                "ms",
                1,
                &[(&base, &p50), (&base, &p95)],
            ),
            row("CUBIC keeps, buffer of 2 BDP; 0.5 BDP", "%", 1, &[(&base, &keeps), (&short, &keeps)]),
            row("CUBIC keeps, PIE; CoDel; RED", "%", 0, &[(&pie, &keeps), (&codel, &keeps), (&red, &keeps)]),
            row("BBR keeps", "%", 1, &[(&bbr, &keeps)]),
            row("a call waits longer by, 95th percentile", "ms", 1, &[(&voice, &call)]),
            row("CUBIC has 90 % of the link after", "s", 1, &[(&base, &yields)]),
            row(
                "has 90 % again after CUBIC; at 50 Mbit/s",
                "s",
                1,
                &[(&base, &reclaims), (&fast, &reclaims)],
            ),
            row("two flows of the law: first; latecomer", "%", 0, &[(&same, &first), (&same, &second)]),
        ]
        .concat()
    }

    /// Table: shares in which live and simulated values differ by more than a tenth of the link.
    fn differences(&self) -> String {
        type Share = fn(&Figures) -> Option<f64>;
        let shares: [(&str, Share); 3] =
            [("alone", |f| f.alone), ("background", |f| f.background), ("beside", |f| f.primary)];
        let (mut table, mut all, mut cases) = (String::new(), 0, 0);
        for case in compared() {
            let mut apart = Vec::new();
            for (name, share) in shares {
                let live = self.value(&case, Source::Live, share);
                let simulated = self.value(&case, Source::Simulated, share);
                let Some((live, simulated)) = live.zip(simulated) else { continue };
                all += 1;
                if (live - simulated).abs() > AGREED {
                    apart.push(format!("{name} {:.0} ({:.0})", live * 100.0, simulated * 100.0));
                }
            }
            if !apart.is_empty() {
                cases += apart.len();
                let law = case.law.as_deref().unwrap_or("none");
                let (network, beside) = (words(&case.network), case.beside.as_str());
                let _ = writeln!(table, "| {network} | `{law}` | {beside} | {} |", apart.join(", "));
            }
        }
        format!(
            "Of {all} shares, {} agree within {:.0} % of the link.\n\n| network | law | beside | % of the link |\n|---|---|---|---|\n{table}",
            all - cases,
            AGREED * 100.0
        )
    }

    /// Table: shares with delayed ACKs and without.
    fn at_once(&self) -> String {
        let mut table = String::from(
            "| network | law | beside | with delayed ACKs: alone, background, beside | each acknowledged at once |\n|---|---|---|---|---|\n",
        );
        for prompt in without_delayed_acks() {
            let delayed = Case { at_once: false, ..prompt.clone() };
            let shares = |case: &Case| {
                [
                    self.percent(case, |f| f.alone),
                    self.percent(case, |f| f.background),
                    self.percent(case, |f| f.primary),
                ]
                .join(", ")
            };
            let (network, beside) = (words(&prompt.network), prompt.beside.as_str());
            let law = prompt.law.as_deref().unwrap_or("none");
            let _ = writeln!(
                table,
                "| {network} | `{law}` | {beside} | {} | {} |",
                shares(&delayed),
                shares(&prompt)
            );
        }
        table
    }

    /// The number of runs and their lateness, as a sentence.
    fn runs(&self) -> String {
        let live = self.runs.iter().filter(|((_, source), _)| *source == Source::Live);
        let (mut least, mut most, mut runs, mut cases) = (usize::MAX, 0, 0, 0);
        let mut late: Vec<f64> = Vec::new();
        let mut overruns = 0;
        for (_, lines) in live {
            (least, most) = (least.min(lines.len()), most.max(lines.len()));
            (runs, cases) = (runs + lines.len(), cases + 1);
            late.extend(lines.iter().map(|line| line.run.late_p99_us as f64));
            overruns += lines.iter().filter(|line| line.run.overruns > 0).count();
        }
        let worst = late.iter().copied().fold(0.0, f64::max);
        let times = if least == most { most.to_string() } else { format!("{least} to {most}") };
        format!(
            "{runs} live runs of {cases} cases, {times} of each. \
             99 % of the packets left the bottleneck within {:.2} ms\n\
             of their time in the median run, within {:.2} ms in the worst; \
             {overruns} runs lost packets that the emulator\nwas too late to read.\n",
            median(late.into_iter()).unwrap_or(0.0) * 1e-3,
            worst * 1e-3
        )
    }
}

fn laws(variants: bool) -> impl Iterator<Item = &'static str> {
    LAWS.into_iter().chain(VARIANTS.into_iter().filter(move |_| variants))
}

/// The difference between a network and the base network, as text.
fn words(network: &Network) -> String {
    let Network { rate_mbit, rtt_ms, queue, buffer_bdp } = network;
    if *network == BASE {
        return "base".into();
    }
    let mut words = Vec::new();
    if *rate_mbit != BASE.rate_mbit {
        words.push(format!("{rate_mbit} Mbit/s"));
    }
    if *rtt_ms != BASE.rtt_ms {
        words.push(format!("{rtt_ms} ms"));
    }
    if *queue != BASE.queue {
        words.push((*queue).to_owned());
    } else if *buffer_bdp != BASE.buffer_bdp {
        words.push(format!("{buffer_bdp} BDP"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Run;

    fn line(case: &Case, source: Source, repetition: u32, primary: f64) -> Line {
        let figures = Figures { primary: Some(primary), alone: Some(0.9), ..Figures::default() };
        Line { case: case.name(), repetition, source, run: Run { figures, late_p99_us: 100, overruns: 0 } }
    }

    #[test]
    fn tables_hold_medians_and_differences() {
        let (case, alone) =
            (Case::new(BASE, Some("lp"), Beside::Cubic), Case::new(BASE, None, Beside::Cubic));
        let mut lines: Vec<Line> =
            [0.6, 0.7, 0.9].iter().zip(1..).map(|(&p, r)| line(&case, Source::Live, r, p)).collect();
        lines.push(line(&alone, Source::Live, 1, 1.0));
        lines.push(line(&case, Source::Simulated, 1, 0.95));
        lines.push(line(&alone, Source::Simulated, 1, 1.0));
        let medians = Medians::of(&lines);
        assert!(medians.primary(Beside::Cubic).contains("| `lp` | 90.0 (90.0) |"));
        assert_eq!(medians.keeps(&case), "70.0 (95.0)");
        let differences = medians.differences();
        assert!(differences.contains("| base | `lp` | cubic | beside 70 (95) |"), "{differences}");
        assert!(medians.runs().starts_with("4 live runs of 2 cases, 1 to 3 of each."), "{}", medians.runs());
    }

    #[test]
    fn the_pages_hold_what_was_measured() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let medians = Medians::of(&read(&root.join("bench/live/results.jsonl")).unwrap());
        for (page, tables) in pages(&root.join("docs/live.md"), &medians) {
            let now = std::fs::read_to_string(&page).unwrap();
            let wanted = filled(&page, &tables).unwrap();
            assert_eq!(now, wanted, "{}: run `leeway-live report`", page.display());
        }
    }

    #[test]
    fn a_table_goes_to_its_place() {
        let page = "a\n<!-- x -->\nold\n<!-- end -->\nb";
        assert_eq!(replaced(page, "x", "| new |").unwrap(), "a\n<!-- x -->\n\n| new |\n<!-- end -->\nb");
        assert_eq!(replaced(page, "y", ""), None);
    }
}
