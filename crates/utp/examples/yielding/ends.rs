//! The two ends of a uTP connection in two hosts of a test network, each in a process of its own.

use crate::Outcome;
use leeway_emulator::testnet::Testnet;
use leeway_utp::{Config, Socket};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const PORT: u16 = 6881;
/// That of Debian, which has the package libtorrent.
const PYTHON: &str = "/usr/bin/python3";
/// The file of the torrent: more than a measurement can carry.
const TORRENT_BYTES: usize = 40_000_000;

/// A child that ends with what holds it.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection from the host `background` to the host `receiver`.
pub struct Connection {
    _ends: [Running; 2],
    /// What a libtorrent client is told, until it ends.
    _commands: Vec<ChildStdin>,
    _folder: Option<tempfile::TempDir>,
    came: Arc<AtomicU64>,
}

impl Connection {
    /// Bytes that have arrived.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Waits until more than `bytes` have arrived.
    pub fn wait(&self, bytes: u64, limit: Duration) -> Outcome<()> {
        let began = Instant::now();
        while self.came() <= bytes {
            if began.elapsed() > limit {
                return Err(format!("{} of {bytes} bytes came in {limit:?}", self.came()).into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Starts both ends.
pub fn connect(net: &Testnet, sender: &str) -> Outcome<Connection> {
    if sender == "libtorrent" {
        return torrent(net);
    }
    let to = SocketAddr::new(address(net, "receiver")?, PORT).to_string();
    let command = |role: &str| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([role, sender, &to]);
        Ok::<_, std::io::Error>(command)
    };
    let mut receive = command("receive")?;
    receive.stdout(Stdio::piped());
    let mut receiving = net.spawn("receiver", receive)?;
    let said = BufReader::new(receiving.stdout.take().ok_or("no output")?);
    let receiving = Running(receiving);
    sleep(Duration::from_millis(300));
    let sending = Running(net.spawn("background", command("send")?)?);
    Ok(Connection { _ends: [receiving, sending], _commands: Vec::new(), _folder: None, came: count(said) })
}

pub fn address(net: &Testnet, host: &str) -> Outcome<IpAddr> {
    Ok(*net.addresses(host)?.iter().find(|address| address.is_ipv4()).ok_or("no IPv4")?)
}

/// Two libtorrent clients: one has a file, the other one fetches it.
fn torrent(net: &Testnet) -> Outcome<Connection> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("file");
    std::fs::write(&source, vec![7; TORRENT_BYTES])?;
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy)?;
    let client = |host: &str, role: &str, folder: &std::path::Path| -> Outcome<_> {
        let mut command = Command::new(PYTHON);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torrent.py"));
        command.args([role, &address(net, host)?.to_string()]).arg(&source).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = net.spawn(host, command)?;
        let commands = child.stdin.take().ok_or("no input")?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no output")?);
        let child = Running(child);
        let mut ready = String::new();
        said.read_line(&mut ready)?;
        let port = ready.split_whitespace().nth(3).ok_or("libtorrent does not start")?.to_owned();
        Ok((child, commands, said, port))
    };
    let (sending, kept, _, port) = client("background", "seed", folder.path())?;
    let (receiving, mut commands, said, _) = client("receiver", "leech", &copy)?;
    writeln!(commands, "report")?;
    writeln!(commands, "connect {} {port}", address(net, "background")?)?;
    Ok(Connection {
        _ends: [receiving, sending],
        _commands: vec![kept, commands],
        _folder: Some(folder),
        came: count(said),
    })
}

/// Reads how many bytes have come, a number a line.
fn count(said: BufReader<ChildStdout>) -> Arc<AtomicU64> {
    let came = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || {
        for bytes in said.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
            counted.store(bytes, Ordering::Relaxed);
        }
    });
    came
}

/// One end, in a process of its own.
pub fn end(sends: bool, sender: &str, address: &str) -> Outcome<()> {
    let address: SocketAddr = address.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let any = "0.0.0.0:0".parse()?;
        match (sender, sends) {
            ("libutp", true) => {
                let context = libutp_rs2::UtpUdpContext::new_udp(any).await?;
                send(context.connect(address).await?).await
            }
            ("libutp", false) => {
                let context = libutp_rs2::UtpUdpContext::new_udp(address).await?;
                receive(context.accept().await?).await
            }
            (law, true) => {
                let mut config = Config::default();
                config.law = law.parse()?;
                send(Socket::bind(any)?.connect(address, config).await?).await
            }
            (_, false) => {
                let socket = Socket::bind(address)?;
                socket.listen(Config::default());
                receive(socket.accept().await).await
            }
        }
    })
}

async fn send(mut stream: impl AsyncWrite + Unpin) -> Outcome<()> {
    let bytes = vec![7; 1 << 14];
    loop {
        stream.write_all(&bytes).await?;
    }
}

/// Says fifty times a second how many bytes have come.
async fn receive(mut stream: impl AsyncRead + Unpin) -> Outcome<()> {
    let (mut buffer, mut bytes, mut said) = (vec![0; 1 << 16], 0, Instant::now());
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => bytes += count,
        }
        if said.elapsed() >= Duration::from_millis(20) {
            said = Instant::now();
            println!("{bytes}");
        }
    }
}
