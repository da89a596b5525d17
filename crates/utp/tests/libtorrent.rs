//! Torrents between libtorrent, which many clients are made of, and this side, which speaks just enough
//! of the BitTorrent peer protocol (BEP 3) here. Needs Debian's python3-libtorrent. `LEEWAY_UTP_BYTES=100000000`
//! carries so many bytes over the clean networks, instead of 6 MB.

mod common;

use common::{
    BAD, BLACK_HOLES, CLEAN, Dropped, FOUR, JUMPS, Network, SIX, black_hole, network, pattern, repeated,
    shrinking, watched, within,
};
use leeway_utp::{Config, Socket, Stream};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// That of Debian, which has the package; another one may come first in PATH.
const PYTHON: &str = "/usr/bin/python3";
const BLOCK_BYTES: usize = 16_384;

/// Messages of BEP 3.
const UNCHOKE: u8 = 1;
const INTERESTED: u8 = 2;
const BITFIELD: u8 = 5;
const REQUEST: u8 = 6;
const PIECE: u8 = 7;

/// Whether the peer is installed; says that it is not, and fails where everything has to be tested.
fn possible() -> bool {
    let is_there = Command::new(PYTHON).args(["-c", "import libtorrent"]).stderr(Stdio::null()).status();
    if is_there.is_ok_and(|status| status.success()) {
        return true;
    }
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!all, "LEEWAY_REQUIRE_ALL=1, but python3-libtorrent is not installed");
    eprintln!("skipped: python3-libtorrent is not installed");
    false
}

/// A libtorrent client.
struct Client {
    child: Child,
    stdout: BufReader<ChildStdout>,
    info_hash: [u8; 20],
    piece_bytes: usize,
    at: SocketAddr,
}

impl Client {
    /// Starts one that has all of `source`, or that wants it in `folder`.
    fn start(role: &str, address: IpAddr, source: &Path, folder: &Path) -> Client {
        let mut child = Command::new(PYTHON)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torrent.py"))
            .args([role, &address.to_string()])
            .args([source, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let byte = |at: usize| u8::from_str_radix(&words[1][2 * at..2 * at + 2], 16).unwrap();
        Client {
            child,
            stdout,
            info_hash: std::array::from_fn(byte),
            piece_bytes: words[2].parse().unwrap(),
            at: SocketAddr::new(address, words[3].parse().unwrap()),
        }
    }

    fn say(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    fn connect(&mut self, to: SocketAddr) {
        self.say(&format!("connect {} {}", to.ip(), to.port()));
    }

    /// Waits until it has everything, and ends it: all of it is on the disk then.
    async fn done(mut self) {
        within(
            "done",
            tokio::task::spawn_blocking(move || {
                let mut line = String::new();
                self.stdout.read_line(&mut line).unwrap();
                assert_eq!(line, "done\n");
                self.say("quit");
                self.child.wait().unwrap();
            }),
        )
        .await
        .unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn handshake(info_hash: &[u8; 20]) -> Vec<u8> {
    [b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0", &info_hash[..], b"-LW0001-leewaytests0"].concat()
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.push(kind);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// The next message that is not empty: its kind and its body.
async fn hear(stream: &mut Stream) -> std::io::Result<(u8, Vec<u8>)> {
    loop {
        let length = stream.read_u32().await? as usize;
        assert!(length <= BLOCK_BYTES + 9 + (1 << 16), "a message of {length} bytes");
        if length > 0 {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            return Ok((body[0], body.split_off(1)));
        }
    }
}

fn number(body: &[u8], at: usize) -> usize {
    u32::from_be_bytes(body[4 * at..4 * at + 4].try_into().unwrap()) as usize
}

/// Both sides say who they are and what it is about.
async fn greet(stream: &mut Stream, info_hash: &[u8; 20]) {
    stream.write_all(&handshake(info_hash)).await.unwrap();
    let mut theirs = [0; 68];
    stream.read_exact(&mut theirs).await.unwrap();
    assert_eq!(&theirs[28..48], info_hash);
}

/// Downloads all of it, with some requests ahead.
async fn download(stream: &mut Stream, client: &Client, length: usize) -> Vec<u8> {
    greet(stream, &client.info_hash).await;
    stream.write_all(&message(INTERESTED, &[])).await.unwrap();
    let blocks: Vec<usize> = (0..length).step_by(BLOCK_BYTES).collect();
    let (mut bytes, mut asked, mut got) = (vec![0; length], 0, 0);
    let mut may_ask = 0;
    while got < blocks.len() {
        match hear(stream).await.unwrap() {
            (UNCHOKE, _) => may_ask = 64,
            (PIECE, body) => {
                let at = number(&body, 0) * client.piece_bytes + number(&body, 1);
                bytes[at..at + body.len() - 8].copy_from_slice(&body[8..]);
                (got, may_ask) = (got + 1, may_ask + 1);
            }
            _ => {}
        }
        while asked < blocks.len().min(may_ask) {
            let at = blocks[asked];
            let words = [at / client.piece_bytes, at % client.piece_bytes, BLOCK_BYTES.min(length - at)];
            let words = words.map(|word| (word as u32).to_be_bytes());
            stream.write_all(&message(REQUEST, &[&words[0], &words[1], &words[2]])).await.unwrap();
            asked += 1;
        }
    }
    bytes
}

/// Serves at most `blocks` blocks, or until the peer has enough.
async fn serve(stream: &mut Stream, info_hash: &[u8; 20], piece_bytes: usize, bytes: &[u8], blocks: usize) {
    greet(stream, info_hash).await;
    let pieces = bytes.len().div_ceil(piece_bytes);
    let mut has = vec![0; pieces.div_ceil(8)];
    (0..pieces).for_each(|piece| has[piece / 8] |= 0x80 >> (piece % 8));
    stream.write_all(&message(BITFIELD, &[&has])).await.unwrap();
    let mut served = 0;
    while served < blocks {
        match hear(stream).await {
            Ok((INTERESTED, _)) => stream.write_all(&message(UNCHOKE, &[])).await.unwrap(),
            Ok((REQUEST, body)) => {
                let at = number(&body, 0) * piece_bytes + number(&body, 1);
                let block = &bytes[at..at + number(&body, 2)];
                // It may have had enough in between.
                if stream.write_all(&message(PIECE, &[&body[..8], block])).await.is_err() {
                    return;
                }
                served += 1;
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

async fn from_libtorrent(address: IpAddr, conditions: Network, length: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (source, bytes) = (folder.path().join("file"), pattern(length, 3));
    std::fs::write(&source, &bytes).unwrap();
    let client = Client::start("seed", address, &source, folder.path());
    let through = network(client.at, conditions).await;
    let socket = Socket::bind((address, 0).into()).unwrap();
    let got = within("download", async {
        let mut stream = socket.connect(through, Config::default()).await.unwrap();
        download(&mut stream, &client, length).await
    })
    .await;
    assert!(got == bytes, "what came differs");
}

/// `fin_after`: this side ends its stream after so many blocks, and the rest goes over another one.
async fn to_libtorrent(address: IpAddr, conditions: Network, length: usize, fin_after: Option<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let (source, bytes) = (folder.path().join("file"), pattern(length, 4));
    std::fs::write(&source, &bytes).unwrap();
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let mut client = Client::start("leech", address, &source, &copy);
    let socket = Socket::bind((address, 0).into()).unwrap();
    socket.listen(Config::default());
    let through = network(socket.local_addr().unwrap(), conditions).await;
    let (info_hash, piece_bytes) = (client.info_hash, client.piece_bytes);
    client.connect(through);
    if let Some(blocks) = fin_after {
        let mut stream = within("accept", socket.accept()).await;
        within("serve", serve(&mut stream, &info_hash, piece_bytes, &bytes, blocks)).await;
        within("FIN", stream.shutdown()).await.unwrap();
        // It ends its side as well; what it still says goes unanswered.
        let mut rest = Vec::new();
        let _ = within("the peer's end", stream.read_to_end(&mut rest)).await;
        client.connect(through);
    }
    let serving = tokio::spawn(async move {
        loop {
            let mut stream = socket.accept().await;
            let bytes = bytes.clone();
            tokio::spawn(
                async move { serve(&mut stream, &info_hash, piece_bytes, &bytes, usize::MAX).await },
            );
        }
    });
    client.done().await;
    serving.abort();
    assert!(std::fs::read(copy.join("file")).unwrap() == std::fs::read(source).unwrap(), "the copy differs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_from_libtorrent() {
    if possible() {
        for address in [FOUR, SIX] {
            from_libtorrent(address, CLEAN, common::clean_bytes(6_000_001)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_to_libtorrent() {
    if possible() {
        for address in [FOUR, SIX] {
            to_libtorrent(address, CLEAN, common::clean_bytes(6_000_001), None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_from_libtorrent_over_a_network_that_loses_reorders_and_doubles() {
    if possible() {
        from_libtorrent(FOUR, BAD, 300_000).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_to_libtorrent_over_a_network_that_loses_reorders_and_doubles() {
    if possible() {
        to_libtorrent(FOUR, BAD, 300_000, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fin_in_the_middle_ends_one_connection_and_not_the_torrent() {
    if possible() {
        to_libtorrent(FOUR, CLEAN, 2_000_000, Some(40)).await;
    }
}

/// One client has the file; this side fetches it from there and seeds it for two others, which know each
/// other and not the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_among_three_clients_of_libtorrent_and_this_side() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, bytes) = (folder.path().join("file"), pattern(6_000_001, 5));
    std::fs::write(&source, &bytes).unwrap();
    let first = Client::start("seed", FOUR, &source, folder.path());
    let socket = Socket::bind((FOUR, 0).into()).unwrap();
    socket.listen(Config::default());
    let got = within("download", async {
        let mut stream = socket.connect(first.at, Config::default()).await.unwrap();
        download(&mut stream, &first, bytes.len()).await
    })
    .await;
    assert!(got == bytes, "what came differs");

    let copies = ["second", "third"].map(|name| folder.path().join(name));
    let mut others = copies.each_ref().map(|copy| {
        std::fs::create_dir(copy).unwrap();
        Client::start("leech", FOUR, &source, copy)
    });
    let at = socket.local_addr().unwrap();
    let (info_hash, piece_bytes) = (first.info_hash, first.piece_bytes);
    let serving = tokio::spawn(async move {
        loop {
            let mut stream = socket.accept().await;
            let got = got.clone();
            tokio::spawn(async move { serve(&mut stream, &info_hash, piece_bytes, &got, usize::MAX).await });
        }
    });
    let second = others[0].at;
    others[1].connect(second);
    others.iter_mut().for_each(|client| client.connect(at));
    let [second, third] = others;
    tokio::join!(second.done(), third.done());
    serving.abort();
    for copy in copies {
        assert!(std::fs::read(copy.join("file")).unwrap() == bytes, "the copy differs");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_between_clocks_that_jump() {
    if possible() {
        from_libtorrent(FOUR, JUMPS, 2_000_000).await;
        to_libtorrent(FOUR, JUMPS, 2_000_000, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_to_libtorrent_through_mtu_black_holes() {
    if possible() {
        for hole in BLACK_HOLES {
            to_libtorrent(FOUR, hole, 2_000_000, None).await;
        }
        to_libtorrent(SIX, black_hole(1300), 2_000_000, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torrent_to_libtorrent_over_a_path_that_shrinks() {
    if possible() {
        to_libtorrent(FOUR, shrinking(1200), 10_000_000, None).await;
    }
}

/// What libtorrent sends stays at the size of its lost probe: the other way is open only where packets are
/// fragmented.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libtorrent_repeats_a_lost_probe_at_its_size() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("file");
    std::fs::write(&source, pattern(2_000_000, 6)).unwrap();
    let client = Client::start("seed", FOUR, &source, folder.path());
    let dropped = Dropped::default();
    let through = watched(client.at, black_hole(1200), dropped.clone()).await;
    let socket = Socket::bind((FOUR, 0).into()).unwrap();
    let mut stream = within("connect", socket.connect(through, Config::default())).await.unwrap();
    tokio::select! {
        _ = download(&mut stream, &client, 2_000_000) => panic!("libtorrent has learnt to shorten packets"),
        () = within("repetitions", repeated(&dropped)) => {}
    }
}
