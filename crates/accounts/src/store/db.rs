//! One connection to SQLite or PostgreSQL, with the same statements for both.
//!
//! Parameters are `$1`, `$2` ... in the order of their first use, which means the same for both.
//! Values are integers, texts and nulls.

use super::StoreError;
use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut};
use rusqlite::ErrorCode;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that another process may hold the lock of an SQLite file, or a PostgreSQL server
/// may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A value of a statement or a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Null.
    Null,
}

/// A connection to a database.
pub enum Db {
    /// An SQLite file.
    Sqlite(rusqlite::Connection),
    /// A PostgreSQL server.
    Postgres(Box<postgres::Client>),
}

impl Db {
    /// Opens a file, and creates it if there is none.
    pub fn sqlite(path: &Path) -> Result<Db, StoreError> {
        let open = |path: &Path| -> rusqlite::Result<rusqlite::Connection> {
            // Only this user may read what neighbours use. SQLite gives its other files the same
            // permissions, and reports errors of the path.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            let connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(PATIENCE)?;
            // With WAL, readers do not wait for the writer. FULL syncs after each transaction,
            // once in nine seconds, so a power cut loses no more than a killed process does.
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            // Size of the log after a checkpoint, in bytes.
            connection.pragma_update(None, "journal_size_limit", 1 << 20)?;
            Ok(connection)
        };
        open(path).map(Db::Sqlite).map_err(|error| match error.into() {
            StoreError::Damaged(_) => StoreError::Damaged(path.to_owned()),
            error => StoreError::Open(path.display().to_string(), error.to_string()),
        })
    }

    /// Connects to a server.
    pub fn postgres(config: &postgres::Config, url: &str) -> Result<Db, StoreError> {
        let mut config = config.clone();
        if config.get_application_name().is_none() {
            config.application_name("leeway");
        }
        config.connect_timeout(PATIENCE).tcp_user_timeout(PATIENCE * 2);
        let connect = || -> Result<postgres::Client, postgres::Error> {
            let mut client = config.connect(postgres::NoTls)?;
            // Compiling a query (JIT) takes a second, which is longer than any query here.
            client.batch_execute(&format!(
                "SET statement_timeout = {}; SET client_min_messages = warning; SET jit = off",
                PATIENCE.as_millis()
            ))?;
            Ok(client)
        };
        connect()
            .map(|client| Db::Postgres(Box::new(client)))
            .map_err(|error| StoreError::Open(url.to_owned(), postgres_words(&error)))
    }

    /// The end of a table's definition.
    pub fn table_suffix(&self) -> &'static str {
        match self {
            Db::Sqlite(_) => "WITHOUT ROWID",
            Db::Postgres(_) => "",
        }
    }

    /// Executes a statement. Returns the number of rows that it changed.
    pub fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        match self {
            Db::Sqlite(connection) => {
                Ok(connection.prepare(sql)?.execute(rusqlite::params_from_iter(values))? as u64)
            }
            Db::Postgres(client) => Ok(client.execute(sql, &parameters(values))?),
        }
    }

    /// All rows of a query.
    pub fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, StoreError> {
        match self {
            Db::Sqlite(connection) => {
                let mut statement = connection.prepare(sql)?;
                let columns = statement.column_count();
                let rows = statement.query_map(rusqlite::params_from_iter(values), |row| {
                    (0..columns).map(|column| row.get(column)).collect()
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            }
            Db::Postgres(client) => {
                let rows = client.query(sql, &parameters(values))?;
                rows.iter()
                    .map(|row| (0..row.len()).map(|column| Ok(row.try_get(column)?)).collect())
                    .collect()
            }
        }
    }

    /// Does all of `work`, or nothing of it. After an error the outcome may be unknown: the commit
    /// may have been done, and its answer lost.
    pub fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Db) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // SQLite takes the lock at the beginning, so that a second process waits instead of
        // failing in the middle.
        let begin = if matches!(self, Db::Sqlite(_)) { "BEGIN IMMEDIATE" } else { "BEGIN" };
        self.execute(begin, &[])?;
        let done = work(self).and_then(|result| self.execute("COMMIT", &[]).map(|_| result));
        if done.is_err() {
            // The first error is reported. There may be no transaction any more.
            let _ = self.execute("ROLLBACK", &[]);
        }
        done
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl Value {
    /// The number, or 0.
    pub fn int(&self) -> i64 {
        if let Value::Int(number) = self { *number } else { 0 }
    }

    /// The number, if there is one.
    pub fn some_int(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    /// The text, if there is one.
    pub fn some_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// The text, or an empty one.
    pub fn text(&self) -> &str {
        self.some_text().unwrap_or_default()
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Null => ValueRef::Null,
        }))
    }
}

impl rusqlite::types::FromSql for Value {
    fn column_result(value: ValueRef<'_>) -> rusqlite::types::FromSqlResult<Value> {
        match value {
            ValueRef::Integer(number) => Ok(Value::Int(number)),
            ValueRef::Text(_) => Ok(Value::Text(value.as_str()?.to_owned())),
            ValueRef::Null => Ok(Value::Null),
            _ => Err(rusqlite::types::FromSqlError::InvalidType),
        }
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Int(number) => number.to_sql_checked(kind, out),
            Value::Text(text) => text.to_sql_checked(kind, out),
            Value::Null => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Value, Box<dyn std::error::Error + Sync + Send>> {
        if *kind == Type::INT8 {
            i64::from_sql(kind, raw).map(Value::Int)
        } else {
            String::from_sql(kind, raw).map(Value::Text)
        }
    }

    fn from_sql_null(_: &Type) -> Result<Value, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Value::Null)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INT8 || <String as FromSql>::accepts(kind)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            // The store adds the path.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(PathBuf::new()),
            _ => StoreError::Database(error.to_string()),
        }
    }
}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> StoreError {
        StoreError::Database(postgres_words(&error))
    }
}

/// The server's message; else the client's error with its causes.
pub fn postgres_words(error: &postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
