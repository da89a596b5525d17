//! `leeway recv`: waits for one file and receives it.

use super::frame::{Frame, Offer};
use super::meter::{Account, Meter};
use super::pace::Pace;
use super::part::{Part, obstacle, unwritable};
use super::talk::{self, Alive, Stop};
use super::{CHUNK_BYTES, PORT, config, pace};
use crate::Failure;
use crate::account::bytes;
use clap::Args;
use leeway_utp::{Socket, Stream};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

pub const HELP: &str = "Examples:\n  \
    leeway recv ~/incoming\n      \
    receive one file into that folder, under the name that the sender gives\n  \
    leeway recv --from 192.0.2.7 backup.tar\n      \
    receive one file under this name, from this address only\n  \
    leeway recv --resume ~/incoming\n      \
    continue where the last transfer broke off\n\n\
    Everybody who can reach the port can send. The sender is not verified, and nothing is encrypted. \
    Existing files are never overwritten. An incomplete file has the name NAME.leeway-part.\n\n\
    Exit codes: 0 the file is complete, 1 the transfer failed, 2 bad usage, 130 or 143 interrupted.";

/// The time in which a peer that connects must make its offer, and the most peers that may do so at
/// once. One more takes the place of the first: a sender's offer arrives within a round trip.
const OFFER_WITHIN: Duration = Duration::from_secs(10);
const OFFERS_MAX: usize = 16;
/// Strangers who are told at a time why they are refused. Others are only reset.
const REFUSALS_MAX: usize = 64;

/// Receives one file.
#[derive(Args)]
pub struct Recv {
    /// A folder to receive into, or the name for the file.
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    target: PathBuf,
    /// The UDP port to wait at; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// The address to wait at. All addresses of this machine by default.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Accept the file from this address only.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Continue an earlier transfer, if what it left is the beginning of the file.
    #[arg(long)]
    resume: bool,
    /// Print the account of the transfer as JSON, on the standard output.
    #[arg(long)]
    json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &Recv) -> Result<(), Failure> {
    if !args.target.is_dir() {
        if args.target.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(Failure::Usage(format!("there is no folder {}", args.target.display())));
        }
        let folder = args.target.parent().filter(|folder| *folder != Path::new(""));
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Failure::Usage(format!("there is no folder {}", folder.display())));
        }
        if let Some(obstacle) = obstacle(&args.target, args.resume) {
            return Err(Failure::Usage(obstacle));
        }
    }
    if let Some(reason) = unwritable(&args.target) {
        return Err(Failure::Usage(reason));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(receive(args))
}

async fn receive(args: &Recv) -> Result<(), Failure> {
    let socket = Arc::new(listen(args)?);
    let (stream, offer, mut part) = chosen(args, &socket).await?;
    socket.stop_listening();
    let there_bytes = part.bytes();
    let came = talk::until_signal(transfer(&stream, &offer, &mut part, args)).await;
    let came = match came {
        Ok(account) => completed(&stream, part, account).await,
        Err(stop) => {
            // Without growth the file is as it was before. It may be a part of another file, so no
            // message about it.
            let grew = part.bytes() > there_bytes;
            if let Some(words) = part.keep().filter(|_| grew) {
                eprintln!("leeway: {words}");
            }
            Err(stop)
        }
    };
    match &came {
        Ok(_) => talk::part_in_peace(&socket, &stream).await,
        Err(stop) => talk::part_for(&socket, &stream, stop).await,
    }
    Ok(came?.tell(args.json, args.quiet)?)
}

fn listen(args: &Recv) -> Result<Socket, Failure> {
    let bind = |address: IpAddr| Socket::bind((address, args.port).into());
    let bound = match args.address {
        Some(address) => bind(address),
        // An IPv6 socket also accepts IPv4. A machine without IPv6 cannot make one.
        None => match bind(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => bind(Ipv4Addr::UNSPECIFIED.into()),
            bound => bound,
        },
    };
    let socket = bound.map_err(|error| {
        Failure::Run(match (args.address, error.kind()) {
            (Some(address), io::ErrorKind::AddrNotAvailable) => {
                format!("cannot wait at {address}: this machine has no such address")
            }
            _ => format!("cannot wait at UDP port {}: {error}; --port takes another", args.port),
        })
    })?;
    socket.listen(config());
    if !args.quiet {
        let port = socket.local_addr()?.port();
        eprintln!("leeway: waiting for a file at UDP port {port}");
    }
    Ok(socket)
}

/// Waits for the first offer that can be accepted. Refused senders are told the reason, which is
/// printed here too.
async fn chosen(args: &Recv, socket: &Arc<Socket>) -> Result<(Arc<Stream>, Offer, Part), Failure> {
    let mut offers = JoinSet::new();
    let mut open: VecDeque<(AbortHandle, Arc<Stream>)> = VecDeque::new();
    let mut refusals = JoinSet::new();
    loop {
        while refusals.try_join_next().is_some() {}
        let (stream, considered) = tokio::select! {
            stream = socket.accept() => {
                let stream = Arc::new(stream);
                if is_awaited(args, &stream) {
                    let reading = Arc::clone(&stream);
                    let task = offers.spawn(async move {
                        let offer = timeout(OFFER_WITHIN, Offer::read(&mut &*reading)).await;
                        let late = || io::Error::new(io::ErrorKind::TimedOut, "the sender has made no offer for 10 s");
                        (reading, offer.unwrap_or_else(|_| Err(late())))
                    });
                    open.push_back((task, stream));
                    if open.len() > OFFERS_MAX
                        && let Some((task, first)) = open.pop_front()
                    {
                        task.abort();
                        first.reset();
                    }
                    continue;
                }
                (stream, Err("this is not the sender that --from asks for".to_owned()))
            }
            Some(joined) = offers.join_next() => {
                let Ok((stream, offer)) = joined else { continue };
                open.retain(|(_, other)| !Arc::ptr_eq(other, &stream));
                let offer = offer.map_err(|error| talk::ended(error).to_string());
                (stream, offer.and_then(|offer| consider(args, &offer).map(|part| (offer, part))))
            }
        };
        let who = stream.peer_addr().map_or_else(String::new, |peer| peer.ip().to_canonical().to_string());
        match considered {
            Ok((offer, part)) => {
                if !args.quiet {
                    eprintln!("leeway: {} from {who}, {}", offer.name, bytes(offer.size_bytes));
                }
                offers.abort_all();
                for (_, other) in open {
                    let told = "another sender was first, and one file is taken".to_owned();
                    refusals.spawn(refuse(Arc::clone(socket), other, told));
                }
                refusals.detach_all();
                return Ok((stream, offer, part));
            }
            Err(reason) => {
                eprintln!("leeway: refused {who}: {reason}");
                if refusals.len() >= REFUSALS_MAX {
                    stream.reset();
                    continue;
                }
                let told = without_folder(&reason, &args.target);
                refusals.spawn(refuse(Arc::clone(socket), stream, told));
            }
        }
    }
}

/// Tells a stranger why nothing is taken from it.
async fn refuse(socket: Arc<Socket>, stream: Arc<Stream>, reason: String) {
    talk::part_for(&socket, &stream, &Stop::Refusal(reason)).await;
}

/// Whether a stream comes from the address that `--from` names.
fn is_awaited(args: &Recv, stream: &Stream) -> bool {
    let peer = stream.peer_addr().map(|peer| peer.ip().to_canonical());
    args.from.is_none_or(|from| peer == Some(from.to_canonical()))
}

/// The reason for a stranger, without the folder of the file, which is none of the stranger's
/// business.
fn without_folder(reason: &str, target: &Path) -> String {
    let folder = if target.is_dir() { target } else { target.parent().unwrap_or(target) };
    match folder.join("").to_str() {
        Some(prefix) if prefix.len() > 1 => reason.replace(prefix, ""),
        _ => reason.to_owned(),
    }
}

/// Opens the incomplete file for an offer, or returns why the offer is refused.
fn consider(args: &Recv, offer: &Offer) -> Result<Part, String> {
    let target = match args.target.is_dir() {
        true => args.target.join(&offer.name),
        false => args.target.clone(),
    };
    let part = Part::open(&target, args.resume)?;
    let there_bytes = part.bytes();
    let reason = match offer.size_bytes.checked_sub(there_bytes) {
        None => format!(
            "the part that is there ({there_bytes} bytes) is longer than the file ({})",
            offer.size_bytes
        ),
        Some(missing) => match part.room_bytes() {
            Err(error) => format!("cannot tell how much room there is: {error}"),
            Ok(room) if room < missing => {
                format!(
                    "the transfer needs {}, and the file system has only {} left",
                    bytes(missing),
                    bytes(room)
                )
            }
            Ok(_) => return Ok(part),
        },
    };
    if there_bytes == 0 {
        part.keep(); // It is empty, so this removes it.
    }
    Err(reason)
}

async fn transfer(stream: &Stream, offer: &Offer, part: &mut Part, args: &Recv) -> Result<Account, Stop> {
    let offset_bytes = part.bytes();
    let mut alive = Alive::new(stream);
    let hash = part.hash(async |_| alive.tick().await).await?;
    talk::say(stream, &Frame::Go { offset_bytes, hash }).await?;
    // The sender hashes its file up to the offset.
    match pace::within(pace::for_hashing(offset_bytes), talk::next(stream)).await? {
        Frame::Data => {}
        other => return Err(talk::unexpected(&other)),
    }
    let meter = Meter::new(offer.size_bytes, offset_bytes, !args.quiet);
    body(&mut &*stream, offer, part, |count| meter.moved(count)).await?;
    let hash = match pace::within(pace::for_hashing(0), talk::next(stream)).await? {
        Frame::End { hash } => hash,
        other => return Err(talk::unexpected(&other)),
    };
    meter.finish();
    if hash != part.finalize() {
        return Err(Stop::Refusal(format!("the received bytes of {} differ from what was sent", offer.name)));
    }
    Ok(Account {
        file: offer.name.clone(),
        peer: stream.peer_addr().map_or_else(String::new, |peer| peer.ip().to_canonical().to_string()),
        size_bytes: offer.size_bytes,
        resumed_bytes: offset_bytes,
        seconds: meter.seconds(),
        blake3: hash.to_hex().to_string(),
        sending: None,
    })
}

/// Receives the bytes of the file, and tells `moved` how many came. Fails when the sender is silent or
/// slower than [`Pace`] allows.
async fn body(
    reader: &mut (impl AsyncRead + Unpin),
    offer: &Offer,
    part: &mut Part,
    moved: impl Fn(usize),
) -> Result<(), Stop> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut pace = Pace::new();
    while part.bytes() < offer.size_bytes {
        let left = usize::try_from(offer.size_bytes - part.bytes()).unwrap_or(usize::MAX);
        let read = timeout(talk::QUIET, reader.read(&mut chunk[..left.min(CHUNK_BYTES)]));
        let count = pace.read(read).await?.unwrap_or_else(|_| Err(talk::quiet())).map_err(talk::ended)?;
        if count == 0 {
            return Err(talk::ended(io::ErrorKind::UnexpectedEof.into()).into());
        }
        let written = part.write(&chunk[..count]);
        written.map_err(|error| Stop::Refusal(format!("cannot write all of {}: {error}", offer.name)))?;
        pace.moved(count);
        moved(count);
    }
    Ok(())
}

/// Gives the file its name and confirms to the sender.
async fn completed(stream: &Stream, part: Part, account: Account) -> Result<Account, Stop> {
    let named = tokio::task::spawn_blocking(move || part.complete());
    let named = talk::working(stream, named).await?.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    let path =
        named.map_err(|error| Stop::Refusal(format!("cannot give {} its name: {error}", account.file)))?;
    talk::say(stream, &Frame::Done).await?;
    Ok(Account { file: path.display().to_string(), ..account })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::time::{Instant, sleep};

    /// How a transfer of 1 MB ends whose sender writes `bytes` every `every`, and when.
    async fn ends(bytes: usize, every: Duration) -> (Result<(), Stop>, Duration) {
        let folder = tempfile::tempdir().unwrap();
        let mut part = Part::open(&folder.path().join("a"), false).unwrap();
        let offer = Offer { name: "a".to_owned(), size_bytes: 1_000_000 };
        let (mut sender, mut reader) = tokio::io::duplex(1 << 16);
        let sends = async move {
            while sender.write_all(&vec![7; bytes]).await.is_ok() {
                sleep(every).await;
            }
        };
        let (began, sends) = (Instant::now(), tokio::spawn(sends));
        let end = body(&mut reader, &offer, &mut part, |_| {}).await;
        sends.abort();
        (end, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_trickles_bytes_does_not_keep_the_place() {
        let (end, after) = ends(1, Duration::from_secs(50)).await;
        let Err(Stop::Connection(error)) = end else { panic!("{end:?}") };
        assert!(error.to_string().contains("8.2 kB in 10 min"), "{error}");
        assert_eq!(after.as_secs(), 600);
        // A law's lowest window: 0.01 packets of 1,400 bytes each round trip of 500 ms.
        let (end, after) = ends(1400, Duration::from_secs(50)).await;
        assert!(end.is_ok(), "{end:?} after {after:?}");
        // Silence ends the transfer earlier.
        let (end, after) = ends(0, Duration::from_secs(1)).await;
        assert!(matches!(end, Err(Stop::Connection(_))) && after == talk::QUIET, "{end:?} after {after:?}");
    }
}
