//! Pages in Debian's Chromium: the owner's page of a gateway that runs, the report of a simulation.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

const PASSWORD: &str = "correct horse battery";
/// Names that would be scripts where they were not text; jordi's volume of the day is soon used.
const USERS: [&str; 4] = ["<script>alert(1)</script>", "\"><img/src=x/onerror=alert(2)>", "maria", "jordi"];
const PATIENCE: Duration = Duration::from_secs(900);

/// The browser's Python, axe-core and the browser; says why the test is skipped where one is missing.
fn programs() -> Option<[PathBuf; 3]> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let python = tools.join("playwright-1.65.2/bin/python");
    let axe = tools.join("axe-0.1.8/axe_playwright_python/axe.min.js");
    let programs = [python, axe, "/usr/bin/chromium".into()];
    if programs.iter().all(|path| path.exists()) {
        return Some(programs);
    }
    assert!(std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "no browser: tools/setup.sh test");
    eprintln!("skipped: no browser (tools/setup.sh test)");
    None
}

/// A gateway that is killed at the end.
struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it, and waits until its page is there.
fn start(config: &Path, page: u16, more: &str) -> Gateway {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.args(["gateway", "--config"]).arg(config).args(more.split_whitespace());
    let mut gateway = Gateway(command.stdout(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", page)).is_err() {
        assert!(gateway.0.try_wait().unwrap().is_none(), "it ended");
        assert!(began.elapsed() < PATIENCE, "it does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    gateway
}

/// A server that sends without end to everybody.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || send(stream));
        }
    });
    address
}

fn send(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    while stream.write_all(&[b'x'; 16_384]).is_ok() {}
}

/// A neighbour who downloads for as long as the test takes, from whichever gateway is there.
fn download(name: &str, proxy: SocketAddr, server: SocketAddr, end: Arc<AtomicBool>) {
    use data_encoding::BASE64;
    let who = BASE64.encode(format!("{name}:{PASSWORD}").as_bytes());
    let request = format!(
        "GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nProxy-Authorization: Basic {who}\r\nConnection: close\r\n\r\n"
    );
    std::thread::spawn(move || {
        let mut piece = [0; 65_536];
        while !end.load(Ordering::Relaxed) {
            if let Ok(mut stream) = TcpStream::connect(proxy) {
                let _ = stream.write_all(request.as_bytes());
                while !end.load(Ordering::Relaxed) && matches!(stream.read(&mut piece), Ok(1..)) {}
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

/// A port that nobody uses, and that the kernel gives to nobody meanwhile who asks for any: those begin at 32768
/// (net.ipv4.ip_local_port_range).
fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 20_000) as u16;
    let mut ports = std::iter::repeat_with(|| first + TRIED.fetch_add(1, Ordering::Relaxed));
    ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap()
}

#[test]
fn the_donor_sees_and_steers_in_a_browser() {
    let Some([python, axe, chromium]) = programs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let hash = leeway_gateway::password::Hash::of(PASSWORD).unwrap();
    let lines = |names: &[&str]| names.iter().map(|name| format!("{name}:{hash}\n")).collect::<String>();
    for (file, names) in [("users", &USERS[..]), ("owners", &["owner"])] {
        secret(&path(file), &lines(names));
    }
    let (server, page, proxy) = (server(), free_port(), free_port());
    let (other, nobody) = (free_port(), free_port());
    let text = format!(
        "listen = [\"127.0.0.1:{proxy}\"]\nclients = [\"127.0.0.1/32\"]\nallow = [\"127.0.0.2/32\"]\n\
         peers = [{{ url = \"http://127.0.0.1:{other}\", name = \"<b>Attic</b>\" }},\n\
                  \"http://127.0.0.1:{nobody}\"]\n\
         ports = [{}]\nusers_file = {:?}\nvouchers = true\n\
         [control]\nsocket = {:?}\nstate = {:?}\n\
         [page]\nlisten = \"127.0.0.1:{page}\"\nusers_file = {:?}\n\
         [accounts]\nurl = {:?}\n\
         [caps]\nmonth = {{ volume = \"1 TB\", keep_for_home = \"600 GB\" }}\nall = {{ daily = \"20 GB\" }}\n\
         user = {{ rate = \"4 Mbit/s\" }}\nusers.jordi = {{ daily = \"1 MB\", slow_at = 1 }}\n",
        server.port(),
        path("users"),
        path("control.sock"),
        path("state"),
        path("owners"),
        path("accounts.db"),
    );
    let config = path("gateway.toml");
    std::fs::write(&config, text).unwrap();
    let text = format!(
        "listen = [\"127.0.0.1:{other}\"]\nclients = [\"127.0.0.1/32\"]\nports = [80]\n\
         [control]\nsocket = {:?}\nstate = {:?}\n",
        path("other.sock"),
        path("other.state"),
    );
    std::fs::write(path("other.toml"), text).unwrap();
    let mut peer = Some(start(&path("other.toml"), other, ""));
    let mut gateway = start(&config, page, "");
    let proxy = SocketAddr::from(([127, 0, 0, 1], proxy));
    let end = Arc::new(AtomicBool::new(false));
    for name in USERS {
        download(name, proxy, server, end.clone());
    }
    std::thread::sleep(Duration::from_secs(3));

    let pictures = std::env::var_os("LEEWAY_PICTURES").map_or_else(|| path("pictures"), PathBuf::from);
    std::fs::create_dir_all(&pictures).unwrap();
    let restart = path("restart");
    let mut browser = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/page.py"))
        .arg(chromium)
        .args([&format!("http://127.0.0.1:{page}"), "owner", PASSWORD])
        .args([&config, &restart, &pictures, &axe])
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        if restart.exists() {
            drop(gateway);
            gateway = start(&config, page, &std::fs::read_to_string(&restart).unwrap());
            std::fs::remove_file(&restart).unwrap();
        }
        if restart.with_extension("peer").exists() {
            peer = None;
        }
        if let Some(status) = browser.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            let _ = browser.kill();
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    end.store(true, Ordering::Relaxed);
    drop((gateway, peer));
    assert!(status.success(), "the page is not as it should be");
}

/// What somebody sees first: the report of the first example.
#[test]
fn the_first_report_shows_at_once_what_the_background_does() {
    let Some([python, _, chromium]) = programs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut simulate = Command::new(env!("CARGO_BIN_EXE_leeway"));
    simulate.current_dir(top).args(["sim", "examples/home-backup.toml", "--quiet", "--out"]);
    assert!(simulate.arg(folder.path().join("out")).status().unwrap().success());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/report.py");
    let mut browser = Command::new(python);
    browser.arg(script).arg(chromium).arg(folder.path().join("out/report.html"));
    assert!(browser.status().unwrap().success(), "the report is not as it should be");
}

/// A file that only its owner reads.
fn secret(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
