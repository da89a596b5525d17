//! Programs that download: each is a process of its own in a cgroup of its own. And the server
//! that sends to them.

use crate::testbed::{End, Testbed, inside, unique};
use rustix::net::sockopt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ASKED: &str = "LEEWAY_TEST_DOWNLOAD";

/// A cgroup that is removed once its last process has ended.
pub struct Cgroup(PathBuf);

impl Cgroup {
    pub fn new() -> Cgroup {
        let mounts = fs::read_to_string("/proc/mounts").expect("the mounts");
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        let path = root.expect("a mounted cgroup v2").join(unique("lwcg"));
        fs::create_dir(&path).expect("a cgroup");
        Cgroup(path)
    }

    pub fn open(&self) -> File {
        File::open(&self.0).expect("the cgroup")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A program that downloads over some connections, until it is dropped.
pub struct Downloads(Child);

impl Downloads {
    /// Starts endless downloads (`size` 0), or downloads of `size` bytes one after the other, each
    /// over a connection of its own.
    pub fn begin(
        cgroup: &Cgroup,
        bed: &Testbed,
        from: &Server,
        connections: usize,
        size: usize,
    ) -> Downloads {
        let Cgroup(path) = cgroup;
        let asked =
            format!("{} {} {} {connections} {size}", path.display(), bed.netns(End::Receiver), from.address);
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "downloads_what_a_parent_asks_for"])
            .env(ASKED, asked)
            .stdout(Stdio::null())
            .spawn()
            .expect("this test runs");
        Downloads(child)
    }

    /// Runs the child's part. Returns if this process is not such a child.
    pub fn be_a_child() {
        let Ok(asked) = std::env::var(ASKED) else { return };
        let words: Vec<&str> = asked.split(' ').collect();
        let [cgroup, netns, address, connections, size] = words[..] else { panic!("{asked}") };
        fs::write(Path::new(cgroup).join("cgroup.procs"), std::process::id().to_string())
            .expect("the cgroup");
        let address: SocketAddr = address.parse().expect("an address");
        let (connections, size): (usize, usize) =
            (connections.parse().expect("a number"), size.parse().expect("a number"));
        inside(netns, || {
            thread::scope(|scope| {
                for _ in 0..connections {
                    scope.spawn(|| while download(address, size) {});
                }
            });
            Ok(())
        })
        .expect("the namespace");
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Downloads over one connection. Returns whether to open another one.
fn download(address: SocketAddr, size: usize) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        // IPv6 addresses cannot be used in the first moments.
        thread::sleep(Duration::from_millis(50));
        return true;
    };
    if stream.write_all(&size.to_be_bytes()).is_err() {
        return false;
    }
    let mut buffer = [0; 65536];
    while let Ok(1..) = stream.read(&mut buffer) {}
    size > 0
}

/// A server that sends to every client.
pub struct Server {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// A server at `address` on the sender.
    pub fn new(bed: &Testbed, address: &str) -> Server {
        Server::at(bed, End::Sender, address)
    }

    /// A server at `address` on one end.
    pub fn at(bed: &Testbed, end: End, address: &str) -> Server {
        let address: IpAddr = address.parse().expect("an address");
        let listener = inside(bed.netns(end), || TcpListener::bind((address, 0))).expect("a listener");
        let address = listener.local_addr().expect("its address");
        listener.set_nonblocking(true).expect("a listener that can be ended");
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let over = Arc::clone(&over);
                        thread::spawn(move || send(&stream, &over));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(2));
                    }
                    Err(_) => return,
                }
            }
        });
        Server { address, ended }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn send(mut stream: &TcpStream, over: &AtomicBool) {
    let block = [0; 16384];
    let mut asked = [0; size_of::<usize>()];
    let begun = stream.set_nonblocking(false).is_ok()
        && stream.set_write_timeout(Some(Duration::from_millis(200))).is_ok()
        && sockopt::set_tcp_congestion(stream, "cubic").is_ok()
        && stream.read_exact(&mut asked).is_ok();
    let mut left = match usize::from_be_bytes(asked) {
        0 => usize::MAX,
        size => size,
    };
    while begun && left > 0 && !over.load(Ordering::Relaxed) {
        match stream.write(&block[..left.min(block.len())]) {
            Ok(sent) => left -= sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}
