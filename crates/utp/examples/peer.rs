//! A BitTorrent peer over uTP, for the live swarm of `bench/swarm/live.py`: rarest piece first, tit-for-tat every
//! 10 s with an optimistic unchoke every 30 s (Cohen 2003). It speaks as much of BEP 3 as that takes.
//!
//! usage: peer ADDRESS SOURCE FOLDER INFO_HASH LAW; the port is 6881
//!
//! It has the interface of `bench/swarm/client.py`: a line of JSON when it listens, when it has the file (after it has
//! compared it with SOURCE), and at its end; "connect ADDRESS PORT" and "quit" on standard input.

use leeway_utp::{Config, Socket, Stream};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

const PORT: u16 = 6881;
const PIECE_BYTES: usize = 65_536;
const BLOCK_BYTES: usize = 16_384;
/// As the peers of the simulator: requests outstanding with each neighbour, and peers served at a time.
const REQUESTS: usize = 5;
const SLOTS: usize = 4;
const ROUND: Duration = Duration::from_secs(10);
const OPTIMISTIC_ROUNDS: u32 = 3;

/// Messages of BEP 3.
const CHOKE: u8 = 0;
const UNCHOKE: u8 = 1;
const INTERESTED: u8 = 2;
const NOT_INTERESTED: u8 = 3;
const HAVE: u8 = 4;
const BITFIELD: u8 = 5;
const REQUEST: u8 = 6;
const PIECE: u8 = 7;
const CANCEL: u8 = 8;

/// A block by its number in the file.
type Block = usize;

struct Neighbour {
    ip: String,
    has: Vec<bool>,
    /// What is to be said, before any block.
    says: VecDeque<Vec<u8>>,
    /// Blocks that it asks for, and that it was asked for.
    wanted: VecDeque<Block>,
    asked: Vec<Block>,
    wants: bool,
    is_wanted: bool,
    is_served: bool,
    serves: bool,
    is_there: bool,
    /// Bytes since the last choice, from it and to it; and in all.
    got: u64,
    gave: u64,
    bytes: [u64; 2],
    /// Seconds in which it wanted something, served and not.
    times_s: [f64; 2],
    writes: Arc<Notify>,
}

struct Swarm {
    bytes: Vec<u8>,
    has: Vec<bool>,
    /// Blocks that are here.
    here: Vec<bool>,
    neighbours: Vec<Neighbour>,
    info_hash: [u8; 20],
    /// Its name: libtorrent ends a second connection with the same one.
    id: [u8; 20],
    round: u32,
    optimistic: Option<usize>,
    random: u64,
    noted: Instant,
}

type Shared = Arc<Mutex<Swarm>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Swarm> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.push(kind);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

impl Swarm {
    fn lot(&mut self, count: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % count.max(1)
    }

    /// Piece, place in it, and length of a block, in bytes.
    fn place(&self, block: Block) -> [usize; 3] {
        let at = block * BLOCK_BYTES;
        [at / PIECE_BYTES, at % PIECE_BYTES, BLOCK_BYTES.min(self.bytes.len() - at)]
    }

    fn words(&self, block: Block) -> Vec<u8> {
        self.place(block).into_iter().flat_map(|word| (word as u32).to_be_bytes()).collect()
    }

    fn blocks_of(&self, piece: usize) -> std::ops::Range<Block> {
        let each = PIECE_BYTES / BLOCK_BYTES;
        piece * each..((piece + 1) * each).min(self.here.len())
    }

    fn is_complete(&self) -> bool {
        self.has.iter().all(|&has| has)
    }

    fn say(&mut self, to: usize, kind: u8, parts: &[&[u8]]) {
        let neighbour = &mut self.neighbours[to];
        neighbour.says.push_back(message(kind, parts));
        neighbour.writes.notify_one();
    }

    /// The block to ask `of` for: of a piece that was begun, otherwise of the rarest; in the endgame one that another
    /// owes.
    fn pick(&mut self, of: usize) -> Option<Block> {
        let asked: Vec<Block> =
            self.neighbours.iter().flat_map(|neighbour| neighbour.asked.iter().copied()).collect();
        let may = |piece: usize| self.neighbours[of].has[piece] && !self.has[piece];
        let free = |block: &Block| !self.here[*block] && !asked.contains(block);
        let is_begun = |piece: usize| self.blocks_of(piece).any(|block| !free(&block));
        let pieces: Vec<usize> = (0..self.has.len()).filter(|&piece| may(piece)).collect();
        let begun = pieces.iter().filter(|&&piece| is_begun(piece));
        if let Some(block) = begun.flat_map(|&piece| self.blocks_of(piece)).find(free) {
            return Some(block);
        }
        let copies = |piece: usize| self.neighbours.iter().filter(|n| n.is_there && n.has[piece]).count();
        let fresh: Vec<usize> = pieces.iter().copied().filter(|&piece| !is_begun(piece)).collect();
        if let Some(least) = fresh.iter().map(|&piece| copies(piece)).min() {
            let rarest: Vec<usize> = fresh.into_iter().filter(|&piece| copies(piece) == least).collect();
            let drawn = rarest[self.lot(rarest.len())];
            return Some(self.blocks_of(drawn).start);
        }
        let all_asked = (0..self.here.len()).all(|block| !free(&block));
        let owes_none = self.neighbours[of].asked.is_empty();
        let missing =
            pieces.into_iter().flat_map(|piece| self.blocks_of(piece)).find(|&block| !self.here[block]);
        missing.filter(|_| all_asked && owes_none)
    }

    fn ask(&mut self, of: usize) {
        while self.neighbours[of].is_there
            && self.neighbours[of].serves
            && self.neighbours[of].asked.len() < REQUESTS
        {
            let Some(block) = self.pick(of) else { return };
            self.neighbours[of].asked.push(block);
            let words = self.words(block);
            self.say(of, REQUEST, &[&words]);
        }
    }

    fn ask_all(&mut self) {
        (0..self.neighbours.len()).for_each(|of| self.ask(of));
    }

    fn consider(&mut self, of: usize) {
        let wanted = self.has.iter().zip(&self.neighbours[of].has).any(|(own, theirs)| *theirs && !own);
        if std::mem::replace(&mut self.neighbours[of].is_wanted, wanted) != wanted {
            self.say(of, if wanted { INTERESTED } else { NOT_INTERESTED }, &[]);
        }
    }

    fn serve(&mut self, to: usize, serves: bool) {
        if std::mem::replace(&mut self.neighbours[to].is_served, serves) != serves {
            self.neighbours[to].wanted.clear();
            self.say(to, if serves { UNCHOKE } else { CHOKE }, &[]);
        }
    }

    fn lap(&mut self) {
        let span_s = std::mem::replace(&mut self.noted, Instant::now()).elapsed().as_secs_f64();
        for neighbour in self.neighbours.iter_mut().filter(|neighbour| neighbour.is_there && neighbour.wants)
        {
            neighbour.times_s[usize::from(!neighbour.is_served)] += span_s;
        }
    }

    /// Whom to serve until the next time.
    fn choose(&mut self) {
        let complete = self.is_complete();
        let is_right = |n: &Neighbour| n.is_there && n.wants;
        let mut wanting: Vec<usize> =
            (0..self.neighbours.len()).filter(|&at| is_right(&self.neighbours[at])).collect();
        for last in (1..wanting.len()).rev() {
            let other = self.lot(last + 1);
            wanting.swap(last, other);
        }
        let worth = |at: &usize| {
            let neighbour = &self.neighbours[*at];
            std::cmp::Reverse(if complete { neighbour.gave } else { neighbour.got })
        };
        wanting.sort_by_key(worth);
        let stays = !self.round.is_multiple_of(OPTIMISTIC_ROUNDS);
        self.round += 1;
        self.optimistic = self.optimistic.filter(|lucky| stays && wanting.contains(lucky));
        let lucky = self.optimistic;
        let mut served: Vec<usize> =
            wanting.iter().copied().filter(|at| Some(*at) != lucky).take(SLOTS - 1).collect();
        if lucky.is_none() {
            let rest: Vec<usize> = wanting.into_iter().filter(|at| !served.contains(at)).collect();
            self.optimistic = (!rest.is_empty()).then(|| rest[self.lot(rest.len())]);
        }
        served.extend(self.optimistic);
        for at in 0..self.neighbours.len() {
            (self.neighbours[at].got, self.neighbours[at].gave) = (0, 0);
            self.serve(at, served.contains(&at));
        }
    }

    /// `from` says something.
    fn hear(&mut self, from: usize, kind: u8, body: &[u8]) -> io::Result<()> {
        let wrong = || io::Error::other("a message that BEP 3 does not have");
        let word = |at: usize| {
            let bytes = body.get(4 * at..4 * at + 4).ok_or_else(wrong)?;
            Ok::<usize, io::Error>(u32::from_be_bytes(bytes.try_into().map_err(|_| wrong())?) as usize)
        };
        let block = || Ok::<Block, io::Error>((word(0)? * PIECE_BYTES + word(1)?) / BLOCK_BYTES);
        match kind {
            BITFIELD => {
                let bit = |at: usize| body.get(at / 8).is_some_and(|byte| byte << (at % 8) & 0x80 != 0);
                self.neighbours[from].has = (0..self.has.len()).map(bit).collect();
                self.consider(from);
            }
            HAVE => {
                let piece = word(0)?;
                *self.neighbours[from].has.get_mut(piece).ok_or_else(wrong)? = true;
                self.consider(from);
                self.ask(from);
            }
            INTERESTED | NOT_INTERESTED => {
                self.lap();
                self.neighbours[from].wants = kind == INTERESTED;
                let served = self.neighbours.iter().filter(|n| n.is_there && n.wants && n.is_served).count();
                if kind == INTERESTED && served < SLOTS {
                    self.serve(from, true);
                }
            }
            CHOKE => {
                self.neighbours[from].serves = false;
                self.neighbours[from].asked.clear();
                self.ask_all();
            }
            UNCHOKE => {
                self.neighbours[from].serves = true;
                self.ask(from);
            }
            REQUEST => {
                let block = block()?;
                if block < self.here.len() && self.here[block] && self.neighbours[from].is_served {
                    self.neighbours[from].wanted.push_back(block);
                    self.neighbours[from].writes.notify_one();
                }
            }
            CANCEL => {
                let block = block()?;
                self.neighbours[from].wanted.retain(|other| *other != block);
            }
            PIECE => self.receive(from, block()?, body.get(8..).ok_or_else(wrong)?)?,
            _ => {}
        }
        Ok(())
    }

    fn receive(&mut self, from: usize, block: Block, bytes: &[u8]) -> io::Result<()> {
        if block >= self.here.len() || bytes.len() != self.place(block)[2] {
            return Err(io::Error::other("a block of another size"));
        }
        let neighbour = &mut self.neighbours[from];
        neighbour.got += bytes.len() as u64;
        neighbour.bytes[1] += bytes.len() as u64;
        neighbour.asked.retain(|other| *other != block);
        if !std::mem::replace(&mut self.here[block], true) {
            self.bytes[block * BLOCK_BYTES..][..bytes.len()].copy_from_slice(bytes);
            for at in 0..self.neighbours.len() {
                let asked = &mut self.neighbours[at].asked;
                if let Some(place) = asked.iter().position(|other| *other == block) {
                    asked.remove(place);
                    let words = self.words(block);
                    self.say(at, CANCEL, &[&words]);
                }
            }
            let piece = block * BLOCK_BYTES / PIECE_BYTES;
            if self.blocks_of(piece).all(|block| self.here[block]) {
                self.has[piece] = true;
                for at in 0..self.neighbours.len() {
                    match self.neighbours[at].has[piece] {
                        true => self.consider(at),
                        false => self.say(at, HAVE, &[&(piece as u32).to_be_bytes()]),
                    }
                }
            }
        }
        self.ask_all();
        Ok(())
    }
}

/// Reads what one neighbour says.
async fn read(shared: &Shared, at: usize, mut stream: &Stream) -> io::Result<()> {
    loop {
        let length = stream.read_u32().await? as usize;
        if length > BLOCK_BYTES + (1 << 16) {
            return Err(io::Error::other("a message that is too long"));
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        if let Some((&kind, body)) = body.split_first() {
            lock(shared).hear(at, kind, body)?;
        }
    }
}

/// Writes to one neighbour: words first, a block at a time.
async fn write(shared: &Shared, at: usize, mut stream: &Stream, writes: &Notify) -> io::Result<()> {
    loop {
        let next = {
            let mut guard = lock(shared);
            let swarm = &mut *guard;
            let neighbour = &mut swarm.neighbours[at];
            match (neighbour.says.pop_front(), neighbour.wanted.pop_front()) {
                (Some(words), block) => {
                    block.into_iter().for_each(|block| neighbour.wanted.push_front(block));
                    Some(words)
                }
                (None, Some(block)) => {
                    let [_, _, length] = swarm.place(block);
                    let head = swarm.words(block);
                    let neighbour = &mut swarm.neighbours[at];
                    neighbour.gave += length as u64;
                    neighbour.bytes[0] += length as u64;
                    Some(message(PIECE, &[&head[..8], &swarm.bytes[block * BLOCK_BYTES..][..length]]))
                }
                (None, None) => None,
            }
        };
        match next {
            Some(bytes) => stream.write_all(&bytes).await?,
            None => writes.notified().await,
        }
    }
}

/// A neighbour, from the handshake to its end.
async fn neighbour(shared: Shared, stream: Stream) -> io::Result<()> {
    let mut talks = &stream;
    let (info_hash, id, pieces) = {
        let swarm = lock(&shared);
        (swarm.info_hash, swarm.id, swarm.has.len())
    };
    let handshake = [b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0", &info_hash[..], &id[..]].concat();
    talks.write_all(&handshake).await?;
    let mut theirs = [0; 68];
    talks.read_exact(&mut theirs).await?;
    if theirs[28..48] != info_hash {
        return Err(io::Error::other("another torrent"));
    }
    let writes = Arc::new(Notify::new());
    let at = {
        let mut swarm = lock(&shared);
        let mut bits = vec![0u8; pieces.div_ceil(8)];
        (0..pieces).filter(|&at| swarm.has[at]).for_each(|at| bits[at / 8] |= 0x80 >> (at % 8));
        swarm.neighbours.push(Neighbour {
            ip: stream.peer_addr().map_or_else(String::new, |peer| peer.ip().to_string()),
            has: vec![false; pieces],
            says: VecDeque::from([message(BITFIELD, &[&bits])]),
            wanted: VecDeque::new(),
            asked: Vec::new(),
            wants: false,
            is_wanted: false,
            is_served: false,
            serves: false,
            is_there: true,
            got: 0,
            gave: 0,
            bytes: [0; 2],
            times_s: [0.0; 2],
            writes: writes.clone(),
        });
        swarm.neighbours.len() - 1
    };
    let end = tokio::select! {
        end = read(&shared, at, &stream) => end,
        end = write(&shared, at, &stream, &writes) => end,
    };
    let mut swarm = lock(&shared);
    swarm.lap();
    let gone = &mut swarm.neighbours[at];
    (gone.is_there, gone.wants, gone.serves, gone.is_served) = (false, false, false, false);
    gone.asked.clear();
    gone.has.fill(false);
    swarm.ask_all();
    end
}

/// A neighbour; why it ended, on standard error, unless it only hung up.
async fn talk(shared: Shared, stream: io::Result<Stream>) {
    let peer = stream.as_ref().ok().and_then(Stream::peer_addr);
    let end = match stream {
        Ok(stream) => neighbour(shared, stream).await,
        Err(error) => Err(error),
    };
    let hung_up = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
    if let Err(error) = end.or_else(|error| if hung_up.contains(&error.kind()) { Ok(()) } else { Err(error) })
    {
        eprintln!("peer: {peer:?}: {error}");
    }
}

fn report(swarm: &Swarm) -> String {
    let mut peers: BTreeMap<&str, String> = BTreeMap::new();
    let mut all = [0, 0];
    for one in &swarm.neighbours {
        let ([up, down], [served, choked]) = (one.bytes, one.times_s);
        (all[0], all[1]) = (all[0] + up, all[1] + down);
        if up + down > 0 || one.is_there {
            let entry = format!(
                r#""{}": {{"unchoked_s": {served:.1}, "choked_s": {choked:.1}, "utp": true, "up_bytes": {up}, "down_bytes": {down}}}"#,
                one.ip
            );
            peers.insert(&one.ip, entry);
        }
    }
    let peers: Vec<String> = peers.into_values().collect();
    format!(r#"{{"up_bytes": {}, "down_bytes": {}, "peers": {{{}}}}}"#, all[0], all[1], peers.join(", "))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, source, folder, info_hash, law] = &words[..] else {
        return Err(io::Error::other("usage: peer ADDRESS SOURCE FOLDER INFO_HASH LAW"));
    };
    let length = std::fs::metadata(source)?.len() as usize;
    let byte =
        |at: usize| u8::from_str_radix(info_hash.get(2 * at..2 * at + 2).unwrap_or(""), 16).unwrap_or(0);
    let random =
        UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64) ^ u64::from(std::process::id()) << 40;
    let mut id = *b"-LW0001-            ";
    id[8..].copy_from_slice(format!("{:012x}", random & 0xffff_ffff_ffff).as_bytes());
    let shared: Shared = Arc::new(Mutex::new(Swarm {
        bytes: vec![0; length],
        has: vec![false; length.div_ceil(PIECE_BYTES)],
        here: vec![false; length.div_ceil(BLOCK_BYTES)],
        neighbours: Vec::new(),
        info_hash: std::array::from_fn(byte),
        round: 0,
        optimistic: None,
        id,
        random,
        noted: Instant::now(),
    }));
    let mut config = Config::default();
    config.law = law.parse().map_err(io::Error::other)?;
    // A block and what comes before it: what is written further ahead cannot be taken back by a choke.
    config.send_bytes = 2 * BLOCK_BYTES;
    let address = address.parse().map_err(io::Error::other)?;
    let socket = Arc::new(Socket::bind(SocketAddr::new(address, PORT))?);
    socket.listen(config.clone());
    println!(r#"{{"listens": {PORT}}}"#);

    let (says, mut commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).try_for_each(|line| says.send(line))
    });
    let mut rounds = tokio::time::interval(ROUND);
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let mut is_done = false;
    loop {
        tokio::select! {
            stream = socket.accept() => drop(tokio::spawn(talk(shared.clone(), Ok(stream)))),
            _ = rounds.tick() => {
                let mut swarm = lock(&shared);
                swarm.lap();
                swarm.choose();
            }
            _ = looks.tick(), if !is_done => {
                let swarm = lock(&shared);
                is_done = swarm.is_complete();
                if is_done {
                    let at = UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64());
                    if std::fs::read(source)? != swarm.bytes {
                        return Err(io::Error::other("the copy differs"));
                    }
                    std::fs::write(PathBuf::from(folder).join("file"), &swarm.bytes)?;
                    println!(r#"{{"done": {at:.3}}}"#);
                }
            }
            line = commands.recv() => {
                let line = line.unwrap_or_default();
                let words: Vec<&str> = line.split_whitespace().collect();
                let ["connect", ip, port] = words[..] else {
                    let mut swarm = lock(&shared);
                    swarm.lap();
                    println!("{}", report(&swarm));
                    return Ok(());
                };
                let to: SocketAddr = format!("{ip}:{port}").parse().map_err(io::Error::other)?;
                let (shared, socket, config) = (shared.clone(), socket.clone(), config.clone());
                tokio::spawn(async move { talk(shared, socket.connect(to, config).await).await });
            }
        }
    }
}
