//! `leeway send`: sends one file to a waiting `leeway recv`.

use super::frame::{Frame, Offer, bad_name};
use super::meter::{Account, Meter};
use super::part::hash;
use super::place::Place;
use super::talk::{self, Alive, Stop};
use super::{CHUNK_BYTES, config};
use crate::Failure;
use crate::run::LAW;
use clap::Args;
use leeway_control::LawSpec;
use leeway_utp::{Socket, Stream};
use std::fs::{File, Metadata};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use tokio::io::AsyncWriteExt;

pub const HELP: &str = "Examples:\n  \
    leeway recv\n      \
    on the receiving machine: waits at port 4434 (UDP)\n  \
    leeway send backup.tar server.example.org\n      \
    on the sending machine; the transfer yields to all other traffic\n  \
    leeway send --law ledbat:target=5ms --name today.tar backup.tar [2001:db8::7]:7000\n      \
    with another law, under another name, to another port\n\n\
    Nothing is encrypted, and the other side is not verified. Compare the BLAKE3 that \
    both sides print, and send secrets through a tunnel.\n\n\
    Exit codes: 0 the other side has the complete file, 1 the transfer failed, 2 bad usage, 130 or 143 interrupted.";

/// Sends one file.
#[derive(Args)]
pub struct Send {
    /// The file to send.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The host where `leeway recv` waits, by name or address, and the port if it is not 4434.
    #[arg(value_name = "HOST[:PORT]")]
    place: Place,
    /// The control law; `leeway laws` lists them.
    #[arg(long, value_name = "LAW", default_value = LAW)]
    law: LawSpec,
    /// The name for the other side. The name of the file by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the account of the transfer as JSON, on the standard output.
    #[arg(long)]
    json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    quiet: bool,
}

/// The opened file, with its size and times when it was opened.
struct Source {
    file: File,
    metadata: Metadata,
    offer: Offer,
}

pub fn run(args: &Send) -> Result<(), Failure> {
    let mut source = Source::open(args)?;
    let addresses = args.place.addresses().map_err(Failure::Run)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let (socket, stream) = connect(&addresses, &args.law).await?;
        let sent = talk::until_signal(transfer(&stream, &mut source, args)).await;
        match &sent {
            Ok(_) => talk::part_in_peace(&socket, &stream).await,
            Err(stop) => talk::part_for(&socket, &stream, stop).await,
        }
        Ok(sent?.tell(args.json, args.quiet)?)
    })
}

impl Source {
    fn open(args: &Send) -> Result<Source, Failure> {
        let path = &args.file;
        let failed = |error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
        // Checked before opening, because opening a FIFO waits for a writer.
        let is_file = std::fs::metadata(path).map_err(failed)?.is_file();
        if !is_file {
            return Err(Failure::Usage(format!(
                "{} is not a file; to send a folder, pack it with tar",
                path.display()
            )));
        }
        let own = || path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = args.name.clone().or_else(own).ok_or_else(|| {
            Failure::Usage(format!("{} has no name in UTF-8; --name NAME gives it one", path.display()))
        })?;
        if let Some(why) = bad_name(&name) {
            let words =
                format!("receivers refuse the name {name:?}: {why}; --name NAME gives the file another");
            return Err(Failure::Usage(words));
        }
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let offer = Offer { name, size_bytes: metadata.len() };
        Ok(Source { file, metadata, offer })
    }

    /// Whether size and time of the file are as they were when it was opened.
    fn is_unchanged(&self) -> bool {
        let times = |metadata: &Metadata| (metadata.len(), metadata.modified().ok());
        self.file.metadata().is_ok_and(|now| times(&now) == times(&self.metadata))
    }
}

/// Connects to the first address that answers.
async fn connect(addresses: &[SocketAddr], law: &LawSpec) -> Result<(Socket, Stream), Failure> {
    let mut words = Vec::new();
    for &address in addresses {
        let any = match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut config = config();
        config.law = law.clone();
        // Connected, so that the system tells when nobody listens there.
        let bound = UdpSocket::bind((any, 0)).and_then(|udp| udp.connect(address).map(|()| udp));
        let socket = match bound.and_then(Socket::from_std) {
            Ok(socket) => socket,
            Err(error) => {
                words.push(format!("{address}: {error}"));
                continue;
            }
        };
        match socket.connect(address, config).await {
            Ok(stream) => return Ok((socket, stream)),
            Err(error) => words.push(format!("{address}: {error}")),
        }
    }
    let words = words.join("; ");
    let hint = if words.ends_with('?') { "" } else { "; does `leeway recv` run there?" };
    Err(Failure::Run(format!("cannot connect to {words}{hint}")))
}

async fn transfer(stream: &Stream, source: &mut Source, args: &Send) -> Result<Account, Stop> {
    let size_bytes = source.offer.size_bytes;
    let mut writer = stream;
    let offered = writer.write_all(&source.offer.encode()).await;
    // A receiver that refuses everybody may be gone already: its reason is read first.
    let answer = talk::next(stream).await?;
    offered?;
    let (offset_bytes, theirs) = match answer {
        Frame::Go { offset_bytes, hash } => (offset_bytes, hash),
        other => return Err(talk::unexpected(&other)),
    };
    let mut hasher = same(stream, source, offset_bytes, theirs).await?;
    talk::say(stream, &Frame::Data).await?;

    let mut meter = Meter::new(size_bytes, offset_bytes, !args.quiet);
    let mut answer = Box::pin(talk::next(stream));
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left_bytes = size_bytes - offset_bytes;
    while left_bytes > 0 {
        let most = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let name = || args.file.display();
        let read = source.file.read(&mut chunk[..most]);
        let count = read.map_err(|error| Stop::Failure(format!("cannot read {}: {error}", name())))?;
        if count == 0 {
            return Err(Stop::Failure(format!("{} has become shorter while it was sent", name())));
        }
        hasher.update(&chunk[..count]);
        tokio::select! {
            written = writer.write_all(&chunk[..count]) => written?,
            // No frame is expected before the end of the file, except a refusal.
            early = &mut answer => return Err(early.map_or_else(|stop| stop, |frame| talk::unexpected(&frame))),
        }
        left_bytes -= count as u64;
        meter.moved(count);
        meter.look(stream);
    }
    if !source.is_unchanged() {
        return Err(Stop::Refusal(format!("{} has changed while it was sent", args.file.display())));
    }
    if source.file.read(&mut chunk[..1]).is_ok_and(|count| count > 0) {
        let name = args.file.display();
        return Err(Stop::Refusal(format!(
            "{name} has more bytes than the {size_bytes} that it said, as in /proc"
        )));
    }
    let blake3 = hasher.finalize();
    talk::say(stream, &Frame::End { hash: blake3 }).await?;
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
    let done = loop {
        tokio::select! {
            frame = &mut answer => break frame?,
            _ = looks.tick() => meter.look(stream),
        }
    };
    meter.finish();
    match done {
        Frame::Done => Ok(Account {
            file: source.offer.name.clone(),
            peer: stream.peer_addr().map_or_else(String::new, |address| address.to_string()),
            size_bytes,
            resumed_bytes: offset_bytes,
            seconds: meter.seconds(),
            blake3: blake3.to_hex().to_string(),
            sending: Some(meter.sending(stream, args.law.to_string())),
        }),
        other => Err(talk::unexpected(&other)),
    }
}

/// Checks that the other side's bytes are the beginning of this file. Returns the hasher, fed with
/// them.
async fn same(
    stream: &Stream,
    source: &mut Source,
    offset_bytes: u64,
    theirs: blake3::Hash,
) -> Result<blake3::Hasher, Stop> {
    if offset_bytes > source.offer.size_bytes {
        let words = format!("the part at the receiver ({offset_bytes} bytes) is longer than the file");
        return Err(Stop::Refusal(words));
    }
    let mut alive = Alive::new(stream);
    let ours = hash(&mut source.file, offset_bytes, async |_| alive.tick().await).await?;
    if ours.finalize() != theirs {
        let words = format!(
            "the part at the receiver ({offset_bytes} bytes) is not the beginning of this file, which may have changed since; \
             remove the part to start again"
        );
        return Err(Stop::Refusal(words));
    }
    Ok(ours)
}
