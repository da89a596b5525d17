//! Paths to fields of a scenario: `flow[1].law`, `flow.backup.law`, `dumbbell.bottleneck.buffer`.

use std::fmt;
use std::ops::Range;
use toml_edit::{Item, Table, Value};

/// Path of a field in a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<Step>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of a table, or an entry of a list by its name.
    Key(String),
    /// An entry of a list by its index.
    Index(usize),
}

impl FieldPath {
    /// The scenario itself.
    pub fn root() -> Self {
        FieldPath::default()
    }

    /// The path of the field `key` below this one.
    pub fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        FieldPath(steps)
    }

    /// The path of the entry `index` of this list.
    pub fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        FieldPath(steps)
    }

    /// The name of the last field.
    pub(super) fn last(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Reads a path. An error is the range of bytes that is not part of a path.
    pub(super) fn parse(text: &str) -> Result<Self, Range<usize>> {
        let mut steps = Vec::new();
        let mut at = 0;
        for part in text.split('.') {
            let range = at..at + part.len();
            at = range.end + 1;
            let (key, indices) = match part.find('[') {
                Some(bracket) => part.split_at(bracket),
                None => (part, ""),
            };
            if key.trim().is_empty() {
                return Err(range);
            }
            let key = key.trim();
            match (steps.is_empty(), key.parse()) {
                (false, Ok(index)) => steps.push(Step::Index(index)),
                _ => steps.push(Step::Key(key.to_owned())),
            }
            let mut rest = indices;
            while !rest.is_empty() {
                let inner = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let (entry, after) = inner.ok_or(range.clone())?;
                match entry.trim().parse() {
                    Ok(index) => steps.push(Step::Index(index)),
                    Err(_) if entry.trim().is_empty() => return Err(range),
                    Err(_) => steps.push(Step::Key(entry.trim().to_owned())),
                }
                rest = after;
            }
        }
        Ok(FieldPath(steps))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if i == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Span of the value at `path` in the text that `root` was read from. If the path is absent there,
/// the span of its nearest parent, and false.
pub(super) fn span(root: &Table, path: &FieldPath) -> (Range<usize>, bool) {
    let mut found = 0..0;
    let mut at = Node::Table(root);
    for step in path.steps() {
        let (span, next) = match step {
            Step::Key(key) => at.field(key),
            Step::Index(index) => at.entry(*index),
        };
        found = span.unwrap_or(found);
        match next {
            Some(next) => at = next,
            None => return (found, false),
        }
    }
    (found, true)
}

/// The path of the innermost value whose span is `span`.
pub(super) fn path_at(root: &Table, span: &Range<usize>) -> Option<FieldPath> {
    search(Node::Table(root), &FieldPath::root(), span, 0)
}

fn search(node: Node<'_>, path: &FieldPath, span: &Range<usize>, depth: usize) -> Option<FieldPath> {
    if depth > 100 {
        return None;
    }
    for (step, child) in node.children() {
        let here = match step {
            Step::Key(key) => path.key(&key),
            Step::Index(index) => path.index(index),
        };
        if let Some(found) = search(child, &here, span, depth + 1) {
            return Some(found);
        }
        if child.span().as_ref() == Some(span) {
            return Some(here);
        }
    }
    None
}

/// A value in a TOML document, in any of TOML's notations.
#[derive(Clone, Copy)]
enum Node<'a> {
    Table(&'a dyn toml_edit::TableLike),
    Tables(&'a toml_edit::ArrayOfTables),
    Value(&'a Value),
}

impl<'a> Node<'a> {
    fn of(item: &'a Item) -> Option<Node<'a>> {
        match item {
            Item::None => None,
            Item::Value(Value::InlineTable(table)) => Some(Node::Table(table)),
            Item::Value(value) => Some(Node::Value(value)),
            Item::Table(table) => Some(Node::Table(table)),
            Item::ArrayOfTables(tables) => Some(Node::Tables(tables)),
        }
    }

    fn of_value(value: &'a Value) -> Node<'a> {
        match value {
            Value::InlineTable(table) => Node::Table(table),
            value => Node::Value(value),
        }
    }

    fn span(self) -> Option<Range<usize>> {
        match self {
            Node::Table(_) => None,
            Node::Tables(tables) => tables.span(),
            Node::Value(value) => value.span(),
        }
    }

    /// Span and content of the field `key`.
    fn field(self, key: &str) -> (Option<Range<usize>>, Option<Node<'a>>) {
        let Node::Table(table) = self else { return (None, None) };
        let Some((key, item)) = table.get_key_value(key) else { return (None, None) };
        let span = match item {
            Item::Value(value) => value.span(),
            Item::Table(table) => table.span(),
            _ => None,
        };
        (span.or_else(|| key.span()), Node::of(item))
    }

    /// Span and content of the entry `index`.
    fn entry(self, index: usize) -> (Option<Range<usize>>, Option<Node<'a>>) {
        match self {
            Node::Tables(tables) => match tables.get(index) {
                Some(table) => (table.span(), Some(Node::Table(table))),
                None => (None, None),
            },
            Node::Value(Value::Array(array)) => match array.get(index) {
                Some(value) => (value.span(), Some(Node::of_value(value))),
                None => (None, None),
            },
            _ => (None, None),
        }
    }

    fn children(self) -> Vec<(Step, Node<'a>)> {
        match self {
            Node::Table(table) => table
                .iter()
                .filter_map(|(key, item)| Some((Step::Key(key.to_owned()), Node::of(item)?)))
                .collect(),
            Node::Tables(tables) => {
                tables.iter().enumerate().map(|(i, t)| (Step::Index(i), Node::Table(t))).collect()
            }
            Node::Value(Value::Array(array)) => {
                array.iter().enumerate().map(|(i, v)| (Step::Index(i), Node::of_value(v))).collect()
            }
            Node::Value(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_and_print() {
        for (text, shown) in [
            ("dumbbell.bottleneck.buffer", "dumbbell.bottleneck.buffer"),
            ("flow[1].law", "flow[1].law"),
            ("flow.1.law", "flow[1].law"),
            ("flow[backup].law", "flow.backup.law"),
            ("flow[0].intervals[2][1]", "flow[0].intervals[2][1]"),
        ] {
            assert_eq!(FieldPath::parse(text).unwrap().to_string(), shown);
        }
        for text in ["", ".", "a..b", "flow[", "flow[]", "flow[1]x"] {
            assert!(FieldPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_point_at_values_in_every_notation() {
        let text = "a = 1\n[t]\nb = { c = [10, 20] }\n[[f]]\nname = 'x'\n[[f]]\nname = 'y'\n";
        let document = toml_edit::Document::parse(text).unwrap();
        for (path, at) in [
            ("a", "1"),
            ("t.b.c[1]", "20"),
            ("f[1].name", "'y'"),
            ("t", "[t]"),
            ("f[1]", "[[f]]"),
            ("f[1].absent.deeper", "[[f]]"),
        ] {
            let path = FieldPath::parse(path).unwrap();
            assert_eq!(&text[span(document.as_table(), &path).0], at, "{path}");
        }
        let twenty = text.find("20").unwrap();
        let path = path_at(document.as_table(), &(twenty..twenty + 2)).unwrap();
        assert_eq!(path.to_string(), "t.b.c[1]");
    }
}
