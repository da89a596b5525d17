//! A scenario file whose text can be changed before it is read: by `--set`, by `--sweep`, and by
//! the points of its own sweep.

use super::error::{ErrorKind, ScenarioError};
use super::path::Step;
use super::{FieldPath, Scenario, SweepValue, limits, traces, words};
use std::ops::Range;
use std::path::Path;
use toml_edit::{ArrayOfTables, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// The text of a scenario file, and its name for errors.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    name: String,
    text: String,
    changed: bool,
}

/// One point of a sweep: one combination of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPoint {
    /// Path and value of each swept field; empty without a sweep.
    pub values: Vec<(String, SweepValue)>,
    /// The scenario at this point, without its sweep.
    pub scenario: Scenario,
}

impl SweepPoint {
    /// The point as text, such as `buffer = 10 pkt, law = ledbat`; empty without a sweep.
    pub fn label(&self) -> String {
        label(&self.values)
    }
}

fn label(values: &[(String, SweepValue)]) -> String {
    values.iter().map(|(path, value)| format!("{path} = {value}")).collect::<Vec<_>>().join(", ")
}

impl ScenarioFile {
    /// The text of a scenario. `name` appears in errors, and its folder is where trace files are
    /// looked for.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        ScenarioFile { name: name.into(), text: text.into(), changed: false }
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let unreadable =
            |message: String| ScenarioError::new(ErrorKind::Unreadable, (&name, ""), 0..0, message, None);
        let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if size.is_dir() {
            return Err(unreadable("it is a folder, not a scenario file".into()));
        }
        if size.len() > limits::FILE_BYTES as u64 {
            return Err(unreadable(format!("the file is larger than {} MB", limits::FILE_BYTES / 1_000_000)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        Ok(ScenarioFile::new(name, text))
    }

    /// Name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text, with all changes so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads the scenario, and checks the traces that it names. A sweep is read as data.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        self.read().map_err(|error| match self.changed {
            true => error.in_file(format!("{} (as changed)", self.name)),
            false => error,
        })
    }

    fn read(&self) -> Result<Scenario, ScenarioError> {
        let scenario = Scenario::parse(&self.text, &self.name)?;
        traces::check(&scenario, (&self.name, &self.text))?;
        Ok(scenario)
    }

    /// Applies `path=value`, as in `flow.backup.law=ledbat:target=25ms`. The value is TOML, or
    /// text without quotes.
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        let option = "--set";
        let (path, value) = split(assignment, option)?;
        let target = parse_path(path, option)?;
        self.edit(&target, unquoted(value), (option, assignment, 0..path.len()))
    }

    /// Adds a sweep over `path=value,value,...`. Values end at commas outside quotes and brackets.
    /// A comma before `name=` belongs to the parameters of a law or queue:
    /// `ledbat:target=5ms,gain_down=10,newreno` is two values.
    pub fn sweep(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        let option = "--sweep";
        let (path, values) = split(assignment, option)?;
        parse_path(path, option)?;
        let list = Value::Array(values_of(values).into_iter().map(unquoted).collect());
        let target = FieldPath::root().key("sweep").key(path.trim());
        self.edit(&target, list, (option, assignment, 0..path.len()))
    }

    /// All points of the sweep; the last path changes fastest. One point without a sweep.
    pub fn points(&self) -> Result<Vec<SweepPoint>, ScenarioError> {
        let whole = self.scenario()?;
        if whole.sweep.is_empty() {
            return Ok(vec![SweepPoint { values: Vec::new(), scenario: whole }]);
        }
        let document = self.document()?;
        let mut base = document.clone().into_mut();
        base.remove("sweep");
        let base = ScenarioFile { name: self.name.clone(), text: base.to_string(), changed: true };
        let axes = &whole.sweep.0;
        let total = axes.iter().map(|(_, values)| values.len()).product();
        (0..total)
            .map(|number| {
                let mut rest = number;
                let mut values: Vec<(String, SweepValue)> = Vec::new();
                for (path, choices) in axes.iter().rev() {
                    values.push((path.clone(), choices[rest % choices.len()].clone()));
                    rest /= choices.len();
                }
                values.reverse();
                let scenario = self.at_point(base.clone(), &values, document.as_table())?;
                Ok(SweepPoint { values, scenario })
            })
            .collect()
    }

    /// The scenario of `base` with `values`. An error names the point.
    fn at_point(
        &self,
        mut base: ScenarioFile,
        values: &[(String, SweepValue)],
        root: &Table,
    ) -> Result<Scenario, ScenarioError> {
        for (path, value) in values {
            let place = (self.name.as_str(), self.text.as_str(), key_span(root, path).unwrap_or(0..0));
            let target = FieldPath::parse(path).map_err(|_| not_a_path(path, &place))?;
            base.edit(&target, toml_value(value), place)?;
        }
        base.read().map_err(|error| error.in_file(format!("{} (at {})", self.name, label(values))))
    }

    fn document(&self) -> Result<Document<String>, ScenarioError> {
        Document::parse(self.text.clone()).map_err(|error| {
            let (span, message) = (error.span().unwrap_or(0..0), error.message().replace('\n', "; "));
            ScenarioError::new(ErrorKind::Syntax, (&self.name, &self.text), span, message, None)
        })
    }

    /// Sets the field `path` to `value`. `place` (name, text, span) is where the path was written.
    fn edit(
        &mut self,
        path: &FieldPath,
        value: Value,
        place: (&str, &str, Range<usize>),
    ) -> Result<(), ScenarioError> {
        let mut document = self.document()?.into_mut();
        put(document.as_table_mut(), path.steps(), value).map_err(|(message, help)| {
            let (name, text, span) = place;
            ScenarioError::new(ErrorKind::Change, (name, text), span, message, help)
        })?;
        self.text = DocumentMut::to_string(&document);
        self.changed = true;
        Ok(())
    }
}

type Wrong = (String, Option<String>);

/// Sets the field at `steps` below `table` to `value`, and makes tables that do not exist.
fn put(table: &mut dyn TableLike, steps: &[Step], value: Value) -> Result<(), Wrong> {
    let Some((Step::Key(key), rest)) = steps.split_first() else {
        return Err(("an index follows a list, as in `flow[0]`".into(), None));
    };
    let inline = table.get(key).is_none() && rest.first().is_some_and(|step| matches!(step, Step::Key(_)));
    if inline {
        table.insert(key, Item::Value(Value::InlineTable(InlineTable::new())));
    }
    if rest.is_empty() {
        let decor = table.get(key).and_then(Item::as_value).map(|value| value.decor().clone());
        let mut value = value;
        if let Some(decor) = decor {
            *value.decor_mut() = decor;
        }
        table.insert(key, Item::Value(value));
        return Ok(());
    }
    match table.get_mut(key) {
        Some(Item::Table(inner)) => put(inner, rest, value),
        Some(Item::Value(Value::InlineTable(inner))) => put(inner, rest, value),
        Some(Item::ArrayOfTables(tables)) => {
            let index = entry(key, &rest[0], &names_of_tables(tables))?;
            put(tables.get_mut(index).expect("found above"), after_entry(key, rest)?, value)
        }
        Some(Item::Value(Value::Array(list))) => {
            let names: Vec<String> = list.iter().map(|entry| name_of(entry.as_inline_table())).collect();
            let index = entry(key, &rest[0], &names)?;
            match (list.get_mut(index).expect("found above"), rest.len()) {
                (slot, 1) => {
                    *slot = value;
                    Ok(())
                }
                (Value::InlineTable(inner), _) => put(inner, &rest[1..], value),
                _ => Err((format!("`{key}[{index}]` has no fields"), None)),
            }
        }
        Some(_) => Err((format!("`{key}` has no fields"), None)),
        None => Err((format!("there is no list `{key}`"), None)),
    }
}

fn after_entry<'a>(key: &str, rest: &'a [Step]) -> Result<&'a [Step], Wrong> {
    match rest {
        [_] => Err((format!("`{key}` is a list of tables; name a field of the entry"), None)),
        _ => Ok(&rest[1..]),
    }
}

fn entry(list: &str, step: &Step, names: &[String]) -> Result<usize, Wrong> {
    let known: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    match step {
        Step::Index(index) if *index < names.len() => Ok(*index),
        Step::Index(index) => {
            let help = format!("`{list}` has {} entries, counted from 0", names.len());
            Err((format!("there is no `{list}[{index}]`"), Some(help)))
        }
        Step::Key(name) => names.iter().position(|known| known == name).ok_or_else(|| {
            let help = words::suggest(name, &known, "the entries are");
            (format!("there is no `{name}` in `{list}`"), Some(help))
        }),
    }
}

fn names_of_tables(tables: &ArrayOfTables) -> Vec<String> {
    tables.iter().map(|table| name_of(Some(table))).collect()
}

fn name_of<T: TableLike>(table: Option<&T>) -> String {
    table.and_then(|table| table.get("name")?.as_str()).unwrap_or("").to_owned()
}

fn split<'a>(assignment: &'a str, option: &str) -> Result<(&'a str, &'a str), ScenarioError> {
    assignment.split_once('=').ok_or_else(|| {
        let help =
            "write PATH=VALUE, such as `dumbbell.bottleneck.buffer=40 pkt` or `flow.backup.law=ledbat`";
        let place = (option, assignment);
        ScenarioError::new(
            ErrorKind::Change,
            place,
            0..assignment.len(),
            "there is no `=`",
            Some(help.into()),
        )
    })
}

fn parse_path(path: &str, option: &str) -> Result<FieldPath, ScenarioError> {
    FieldPath::parse(path).map_err(|range| not_a_path(path, &(option, path, range)))
}

fn not_a_path(path: &str, (name, text, span): &(&str, &str, Range<usize>)) -> ScenarioError {
    let help = "names joined by dots, such as `flow.backup.law`, `flow[0].law` or `dumbbell.bottleneck.rate`";
    let message = format!("`{path}` is not the path of a field");
    ScenarioError::new(ErrorKind::Change, (name, text), span.clone(), message, Some(help.into()))
}

/// `text` as a TOML value, or as a string if it is none that a scenario can hold.
fn unquoted(text: &str) -> Value {
    let text = text.trim();
    match text.parse::<Value>() {
        // A scenario holds no dates, infinities or NaN.
        Ok(Value::Datetime(_)) | Err(_) => Value::from(text),
        Ok(Value::Float(number)) if !number.value().is_finite() => Value::from(text),
        Ok(value) => value,
    }
}

fn toml_value(value: &SweepValue) -> Value {
    match value {
        SweepValue::Boolean(value) => Value::from(*value),
        SweepValue::Integer(value) => Value::from(*value),
        SweepValue::Float(value) => Value::from(*value),
        SweepValue::Text(text) => Value::from(text.as_str()),
    }
}

/// Splits a list that is written without brackets.
fn values_of(text: &str) -> Vec<&str> {
    let (mut values, mut start, mut depth, mut quote) = (Vec::<&str>::new(), 0, 0i32, None);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 && !continues(&text[start..i], &text[i + 1..]) => {
                values.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    values.push(&text[start..]);
    values
}

/// Whether `rest`, after a comma, is another parameter of the law or queue in `before`.
fn continues(before: &str, rest: &str) -> bool {
    let next = rest.split(',').next().unwrap_or("");
    let name = next.split_once('=').map(|(name, _)| name.trim());
    before.contains(':') && name.is_some_and(|name| !name.is_empty() && !name.contains([':', '"', '\'']))
}

/// Span of the key `path` in the table `sweep`.
fn key_span(root: &Table, path: &str) -> Option<Range<usize>> {
    root.get("sweep")?.as_table_like()?.get_key_value(path)?.0.span()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_commas_that_separate() {
        assert_eq!(values_of("10 pkt,40 pkt"), ["10 pkt", "40 pkt"]);
        assert_eq!(
            values_of("ledbat:target=5ms,gain_down=10,newreno,ledbat:target=1ms"),
            ["ledbat:target=5ms,gain_down=10", "newreno", "ledbat:target=1ms"]
        );
        assert_eq!(values_of("[1,2],{a=1,b=2},\"x,y\""), ["[1,2]", "{a=1,b=2}", "\"x,y\""]);
    }
}
