//! Whole conversations with the whole proxy over loopback addresses.

use leeway_gateway::{Config, Gateway};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

struct Stage {
    proxy: SocketAddr,
    server: SocketAddr,
    played: AtomicU64,
    /// It serves as long as this exists.
    _runtime: tokio::runtime::Runtime,
}

/// By which the server knows what came by the proxy, in lower case.
const MARK: &str = "via: 1.1 leeway";
/// How the names of the threads begin that play the proxy and its server.
const THREADS: &str = "stage-";
/// How long the proxy may take for what it does at once: longer than any machine is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What panicked on those threads, where nobody would notice.
static PANICKED: Mutex<Option<String>> = Mutex::new(None);

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name().is_some_and(|name| name.starts_with(THREADS)) {
            *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
        }
        usual(panic);
    }));
    let listener = TcpListener::bind("127.0.0.2:0").expect("a loopback address");
    let server = listener.local_addr().expect("an address");
    let named = |name: &str| std::thread::Builder::new().name(format!("{THREADS}{name}"));
    let listens = named("listener").spawn(move || {
        for stream in listener.incoming().flatten() {
            let serves = named("server").spawn(move || serve(stream, server));
            drop(serves.expect("a thread"));
        }
    });
    drop(listens.expect("a thread"));
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\nallow = [\"127.0.0.2/32\"]\nports = [{}]\nupload = []\n\
         dns = [\"127.0.0.2:1\"]\nlimits = {{ head_s = 1 }}\n",
        server.port()
    );
    let config = Config::parse(&text).expect("a right configuration");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).thread_name(format!("{THREADS}proxy")).enable_all();
    let runtime = runtime.build().expect("threads");
    let gateway = runtime.block_on(async { Gateway::open(&config, |_| {}) }).expect("it opens");
    let proxy = gateway.addresses()[0];
    runtime.spawn(gateway.run(std::future::pending()));
    Stage { proxy, server, played: AtomicU64::new(0), _runtime: runtime }
});

/// Answers one request, after a look at it.
fn serve(mut stream: TcpStream, own: SocketAddr) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(length @ 1..) => head.extend(&bytes[..length]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    // Through a tunnel comes whatever the client likes.
    if text.contains(MARK) {
        let end = text.find("\r\n\r\n").unwrap_or(text.len());
        let hosts: Vec<&str> = text[..end].lines().filter_map(|line| line.strip_prefix("host: ")).collect();
        assert_eq!(hosts, [own.to_string()], "{text}");
        let framings = text[..end]
            .lines()
            .filter(|line| line.starts_with("content-length:") || line.starts_with("transfer-encoding:"));
        assert!(framings.count() <= 1, "{text}");
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}

fn play(stage: &Stage, bytes: &[u8], shut: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(stage.proxy).expect("the proxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may end the connection before all is written.
    let _ = stream.write_all(bytes);
    if shut {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut heard = Vec::new();
    let ended = stream.read_to_end(&mut heard);
    let waits = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!waits, "the connection goes on without its client");
    heard
}

/// One conversation: the proxy does not panic, the connection ends when its client does, a good
/// request is served afterwards, and no server sees a request that was not addressed to it.
/// `SERVER` in the input is a server's address; input with the proxy's own mark is left out.
pub fn request(bytes: &[u8]) {
    let stage = &*STAGE;
    let mut said = Vec::new();
    let mut rest = bytes;
    while let Some((first, more)) = rest.split_first() {
        if let Some(more) = rest.strip_prefix(b"SERVER") {
            said.extend(stage.server.to_string().bytes());
            rest = more;
        } else {
            said.push(*first);
            rest = more;
        }
    }
    // Through a tunnel that would look as if the proxy had written it.
    if String::from_utf8_lossy(&said).to_ascii_lowercase().contains(MARK) {
        return;
    }
    play(stage, &said, true);
    if stage.played.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
        let good = format!("GET http://{}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", stage.server);
        let heard = play(stage, good.as_bytes(), false);
        assert!(heard.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&heard));
    }
    let panicked = PANICKED.lock().unwrap_or_else(PoisonError::into_inner).take();
    assert!(panicked.is_none(), "{}", panicked.unwrap_or_default());
}
