//! The subcommands that need no module of their own: `sim`, `laws`, `queues`, `schema`,
//! `completions`, `man`.

use crate::Failure;
use crate::args::{Cli, Sim};
use crate::output::{self, Collector, stdout};
use crate::plan::Plan;
use crate::runner;
use clap::CommandFactory;
use clap_complete::Shell;
use leeway_sim::scenario::Scenario;
use std::io::{self, Write};
use std::path::Path;

/// Simulates the scenarios and prints or writes the results.
pub fn sim(args: &Sim) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    if !args.quiet {
        plan.warnings().iter().for_each(|warning| eprintln!("leeway: {warning}"));
    }
    let mut results = Collector::new(&plan, args.out.as_deref())?;
    runner::run_all(&plan, args.jobs, !args.quiet, |point, run| results.take(point, run))?;
    let page = results.write()?;
    let mut out = stdout();
    if args.json {
        out.write_all(results.json()?.as_bytes())?;
    } else if !args.quiet {
        output::print(&results, terminal_width(), &mut out)?;
        if let Some(page) = page {
            writeln!(out, "\nCharts and tables: {}", page.display())?;
        }
    }
    Ok(out.flush()?)
}

/// Width of the terminal, if the output goes to one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// A law or a queue discipline, for listing.
struct Listed {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    params: Vec<Param>,
}

struct Param {
    name: &'static str,
    default: String,
    range: String,
    about: String,
    source: &'static str,
}

/// Lists control laws.
pub fn laws(name: Option<&str>) -> Result<(), Failure> {
    let listed = leeway_control::laws().iter().map(|law| Listed {
        name: law.name,
        summary: law.summary,
        source: law.source,
        params: law
            .params
            .iter()
            .map(|param| Param {
                name: param.name,
                default: param.show(param.default),
                range: param.range(),
                about: param.doc.to_owned(),
                source: param.source,
            })
            .collect(),
    });
    list(listed.collect(), name, "law", "leeway laws")
}

/// Lists queue disciplines.
pub fn queues(name: Option<&str>) -> Result<(), Failure> {
    let listed = leeway_queue::disciplines().iter().map(|queue| Listed {
        name: queue.name,
        summary: queue.summary,
        source: queue.source,
        params: queue
            .params
            .iter()
            .map(|param| Param {
                name: param.name,
                default: param.default.clone(),
                range: param.bounds.clone(),
                about: param.about.clone(),
                source: "",
            })
            .collect(),
    });
    list(listed.collect(), name, "queue discipline", "leeway queues")
}

/// Prints all entries, or only the one called `name`.
fn list(all: Vec<Listed>, name: Option<&str>, what: &str, command: &str) -> Result<(), Failure> {
    let known = || all.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    let chosen: Vec<&Listed> = all.iter().filter(|one| name.is_none_or(|name| name == one.name)).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        return Err(Failure::Usage(format!("there is no {what} `{name}`; choose one of: {}", known())));
    }
    let mut out = stdout();
    for (i, one) in chosen.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        write_one(one, &mut out)?;
    }
    if let (None, Some(example)) = (name, all.iter().find(|one| !one.params.is_empty())) {
        let param = &example.params[0];
        writeln!(out, "\nWith parameters: {}:{}={}", example.name, param.name, param.default)?;
        writeln!(out, "One alone: {command} {}", example.name)?;
    }
    Ok(out.flush()?)
}

fn write_one(one: &Listed, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {}", one.name, one.summary)?;
    writeln!(out, "    source: {}", one.source)?;
    let width = |of: fn(&Param) -> usize| one.params.iter().map(of).max().unwrap_or(0);
    let names = width(|p| p.name.chars().count());
    let defaults = width(|p| p.default.chars().count());
    let ranges = width(|p| p.range.chars().count()).min(28);
    let indent = 4 + names + 2 + defaults + 2 + ranges + 2;
    let room = terminal_width().unwrap_or(LISTING).saturating_sub(indent).max(30);
    for param in &one.params {
        let Param { name, default, range, about, source } = param;
        let cite = if source.is_empty() { String::new() } else { format!(" [{source}]") };
        let mut lines = wrapped(&format!("{about}{cite}"), room).into_iter();
        let first = lines.next().unwrap_or_default();
        if range.chars().count() <= ranges {
            writeln!(out, "    {name:names$}  {default:defaults$}  {range:ranges$}  {first}")?;
        } else {
            writeln!(out, "    {name:names$}  {default:defaults$}  {range}")?;
            writeln!(out, "{:indent$}{first}", "")?;
        }
        lines.try_for_each(|line| writeln!(out, "{:indent$}{line}", ""))?;
    }
    Ok(())
}

/// Width of a listing in characters when the output is not a terminal.
const LISTING: usize = 110;

/// Breaks `text` into lines of at most `width` characters. A longer word gets a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            *line += word;
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            *line += " ";
            *line += word;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Prints the JSON Schema of scenarios.
pub fn schema() -> Result<(), Failure> {
    let schema = serde_json::to_string_pretty(&Scenario::json_schema())
        .map_err(|error| Failure::Run(format!("cannot write the schema: {error}")))?;
    Ok(writeln!(stdout(), "{schema}")?)
}

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leeway", &mut script);
    Ok(stdout().write_all(&script)?)
}

/// Prints the manual page, with a section for each subcommand; or writes a page of each to a
/// folder.
pub fn man(out: Option<&Path>) -> Result<(), Failure> {
    let command = with_dots(Cli::command());
    if let Some(folder) = out {
        let failed = |error| Failure::Run(format!("cannot write to {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        // clap's own command `help` would repeat the pages of the others.
        return clap_mangen::generate_to(command.disable_help_subcommand(true), folder).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = format!("leeway {}", subcommand.get_name());
        let subcommand = subcommand.clone().bin_name(name.clone()).disable_help_flag(true);
        let man = clap_mangen::Man::new(subcommand);
        writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    Ok(stdout().write_all(&page)?)
}

/// The command with dots in the names of arguments that take several values, and `--` where one
/// has to stand before them: clap_mangen leaves out both.
fn with_dots(command: clap::Command) -> clap::Command {
    let several = |arg: clap::Arg| {
        let many = arg.is_positional() && matches!(arg.get_action(), clap::ArgAction::Append);
        match arg.get_value_names().and_then(<[_]>::first) {
            Some(name) if many => {
                let before = if arg.is_last_set() { "-- " } else { "" };
                // clap borrows names for the length of the program, and this runs once in it.
                let name: &'static str = format!("{before}{name}...").leak();
                arg.value_name(name)
            }
            _ => arg,
        }
    };
    command.mut_args(several).mut_subcommands(with_dots)
}
