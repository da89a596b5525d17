//! A PostgreSQL server in a folder of its own, and stores to test.
#![allow(dead_code, reason = "no test needs all of it")]

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A check, given the URL of an empty store.
pub type Check = fn(&str);

/// Does each check with an SQLite file of its own.
pub fn on_sqlite(checks: &[(&str, Check)]) {
    let folder = tempfile::tempdir().unwrap();
    for (name, check) in checks {
        eprintln!("{name}");
        check(folder.path().join(name).to_str().unwrap());
    }
}

/// Does each check with a PostgreSQL database of its own.
pub fn on_postgres(server: &Server, checks: &[(&str, Check)]) {
    for (name, check) in checks {
        eprintln!("{name}");
        check(&server.database(name));
    }
}

/// A server that ends with this, or with the test that started it.
pub struct Server {
    folder: tempfile::TempDir,
    programs: PathBuf,
    process: Child,
}

impl Server {
    /// Starts Debian's PostgreSQL; none if it is not installed and tests may be skipped.
    pub fn start() -> Option<Server> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "PostgreSQL is not installed");
            eprintln!("skipped: PostgreSQL is not installed (apt-get install postgresql)");
            return None;
        };
        // Sockets have short names: not in the build directory.
        let folder = tempfile::Builder::new().prefix("leeway-pg").tempdir_in("/tmp").unwrap();
        if let Some((user, group)) = unprivileged() {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let data = folder.path().join("data");
        let options: [&OsStr; 7] = [
            "-D".as_ref(),
            data.as_os_str(),
            "-A".as_ref(),
            "trust".as_ref(),
            "-U".as_ref(),
            "leeway".as_ref(),
            "--no-sync".as_ref(),
        ];
        let made = command(&programs, "initdb").args(options).current_dir(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let process = spawn(&programs, folder.path());
        let server = Server { folder, programs, process };
        server.wait();
        Some(server)
    }

    /// A new and empty database, as a URL.
    pub fn database(&self, name: &str) -> String {
        self.client("postgres").unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        self.url(name)
    }

    /// Stops the server as a power cut would.
    pub fn crash(&mut self) {
        self.end("-QUIT");
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.process = spawn(&self.programs, self.folder.path());
        self.wait();
    }

    fn url(&self, database: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgresql://leeway@{folder}/{database}")
    }

    fn client(&self, database: &str) -> Result<postgres::Client, postgres::Error> {
        postgres::Client::connect(&self.url(database), postgres::NoTls)
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = self.client("postgres") {
            assert!(Instant::now() < end, "the server does not start: {error}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            self.end("-INT");
        }
    }
}

fn spawn(programs: &Path, folder: &Path) -> Child {
    command(programs, "postgres")
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder)
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20"])
        .args(["-c", "log_min_messages=fatal"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The server refuses to run as root; it ends with the thread that starts it.
fn command(programs: &Path, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = unprivileged() {
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups");
    }
    command.args(["--pdeathsig", "INT"]).arg(programs.join(program));
    command
}

/// User and group `nobody`, if this is root.
fn unprivileged() -> Option<(u32, u32)> {
    std::fs::metadata("/proc/self")
        .is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
        .then_some((65534, 65534))
}

fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version: io::Result<_>| Some(version.ok()?.path().join("bin")))
        .filter(|programs| programs.join("postgres").exists() && programs.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}
