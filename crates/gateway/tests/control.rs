//! The owner's operations, as the control socket has them.

mod common;

use common::{
    PASSWORD, PATIENCE, Running, authorization, echo, from, objects, status, stops, text, udp_echo, users,
};
use leeway_gateway::control::{
    Client, ClientError, Health, PauseRequest, RevokeRequest, Revoked, Sharing, Status, UserStatus,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

struct Owner {
    folder: TempDir,
}

impl Owner {
    fn new() -> Owner {
        Owner { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("gateway.sock")
    }

    fn config(&self) -> String {
        let folder = self.folder.path().display();
        format!("[control]\nsocket = \"{folder}/gateway.sock\"\nstate = \"{folder}/state\"\n")
    }

    fn client(&self) -> Client {
        Client::new(&self.socket())
    }

    async fn status(&self) -> Status {
        self.client().get("/v1/status").await.unwrap()
    }

    async fn pause(&self, seconds: Option<i64>) -> Result<Status, ClientError> {
        self.client().post("/v1/pause", &PauseRequest { seconds }).await
    }

    async fn revoke(&self, user: &str, undo: bool) -> Result<Revoked, ClientError> {
        self.client().post("/v1/revoke", &RevokeRequest { user: user.into(), undo }).await
    }

    async fn resume(&self) -> Status {
        self.client().post("/v1/resume", &()).await.unwrap()
    }
}

/// What a SOCKS client without a name is answered to CONNECT.
async fn socks_reply(gateway: &Running, port: u16) -> u8 {
    let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).await.unwrap();
    let [high, low] = port.to_be_bytes();
    stream.write_all(&[5, 1, 0, 1, 127, 0, 0, 2, high, low]).await.unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await.unwrap();
    reply[1]
}

#[tokio::test]
async fn a_pause_refuses_in_words_and_what_runs_ends() {
    let (objects, echo, owner) = (objects().await, echo().await, Owner::new());
    let gateway = Running::start(&[objects.port(), echo.port()], &owner.config()).await;
    let url = format!("http://{objects}/1000");
    assert_eq!(gateway.status(&url).await, 200);
    assert_eq!(owner.status().await.sharing, Sharing::On);
    let mut running = gateway.client().await;
    running.write_all(format!("CONNECT {echo} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = [0; 256];
    let length = running.read(&mut head).await.unwrap();
    assert_eq!(status(&String::from_utf8_lossy(&head[..length])), 200);

    let paused = owner.pause(Some(7200)).await.unwrap();
    let Sharing::Paused { since, until: Some(until) } = paused.sharing else { panic!("{paused:?}") };
    assert!((7199..=7201).contains(&until.duration_since(since).as_secs()));
    let answer = gateway.say(&format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
    assert_eq!(status(&answer), 503, "{answer}");
    assert!(answer.contains("the owner of this line has paused sharing until "), "{answer}");
    let catalan =
        format!("GET {url} HTTP/1.1\r\nHost: x\r\nAccept-Language: ca\r\nConnection: close\r\n\r\n");
    let answer = gateway.say(&catalan).await;
    assert!(answer.contains("qui comparteix aquesta línia l'ha posada en pausa fins a "), "{answer}");
    let retry =
        answer.lines().find_map(|line| line.to_lowercase().strip_prefix("retry-after: ")?.parse().ok());
    assert!((7000..=7201).contains(&retry.unwrap_or(0)), "{answer}");
    assert_eq!(socks_reply(&gateway, echo.port()).await, 1, "general failure");
    running.write_all(b"still here").await.unwrap();
    let mut back = [0; 10];
    timeout(PATIENCE, running.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back, b"still here");

    assert_eq!(owner.resume().await.sharing, Sharing::On);
    assert_eq!(gateway.status(&url).await, 200);
    assert_eq!(socks_reply(&gateway, echo.port()).await, 0);
}

#[tokio::test]
async fn a_pause_survives_a_restart() {
    let (objects, owner) = (objects().await, Owner::new());
    let gateway = Running::start(&[objects.port()], &owner.config()).await;
    owner.pause(None).await.unwrap();
    gateway.stop().await;
    assert!(matches!(owner.pause(None).await, Err(ClientError::Nobody(_))), "its socket is gone");
    let gateway = Running::start(&[objects.port()], &owner.config()).await;
    assert!(matches!(owner.status().await.sharing, Sharing::Paused { until: None, .. }));
    assert_eq!(gateway.status(&format!("http://{objects}/10")).await, 503);
    owner.resume().await;
    gateway.stop().await;
    let _gateway = Running::start(&[objects.port()], &owner.config()).await;
    assert_eq!(owner.status().await.sharing, Sharing::On);
}

#[tokio::test]
async fn a_pause_ends_by_itself() {
    let (objects, owner) = (objects().await, Owner::new());
    let gateway = Running::start(&[objects.port()], &owner.config()).await;
    owner.pause(Some(1)).await.unwrap();
    let url = format!("http://{objects}/10");
    assert_eq!(gateway.status(&url).await, 503);
    let again = async { while gateway.status(&url).await != 200 {} };
    timeout(PATIENCE, again).await.unwrap();
    assert_eq!(owner.status().await.sharing, Sharing::On);
}

#[tokio::test]
async fn users_and_status_tell_who_has_taken_what() {
    let (objects, owner) = (objects().await, Owner::new());
    let gateway = Running::start(&[objects.port()], &owner.config()).await;
    assert_eq!(gateway.status(&format!("http://{objects}/50000")).await, 200);
    let users: Vec<UserStatus> = owner.client().get("/v1/users").await.unwrap();
    let [user] = &users[..] else { panic!("{users:?}") };
    assert_eq!((user.name.as_str(), user.requests, user.refused), ("127.0.0.1", 1, 0));
    assert!(user.down_bytes > 50_000 && user.up_bytes > 10, "{user:?}");
    let status = owner.status().await;
    assert_eq!((status.down_bytes, status.up_bytes), (user.down_bytes, user.up_bytes));
    assert_eq!(
        status.windows.iter().map(|window| &window.path[..]).collect::<Vec<_>>(),
        ["direct", "uplink"]
    );
    let health: Health = owner.client().get("/healthz").await.unwrap();
    assert!(health.ok);
}

/// The head of an answer, and what comes with it.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = timeout(PATIENCE, stream.read_buf(&mut head)).await.unwrap().unwrap();
        assert!(read > 0, "it ended");
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[tokio::test]
async fn whoever_is_revoked_is_cut_within_a_second_and_stays_out() {
    let (objects, echo, udp, silent) = (objects().await, echo().await, udp_echo().await, stops(b"").await);
    let ports = [objects.port(), echo.port(), udp.port(), silent.port()];
    let owner = Owner::new();
    let gateway = Running::start(&ports, &owner.config()).await;
    let url = format!("http://{objects}/1000");
    let connect = format!("CONNECT {echo} HTTP/1.1\r\nHost: x\r\n\r\n");
    // An idle tunnel, one of another user, a kept connection, a request that waits, and datagrams.
    let [mut tunnel, mut kept, mut waiting, mut datagrams] = [
        gateway.client().await,
        gateway.client().await,
        gateway.client().await,
        TcpStream::connect(gateway.socks).await.unwrap(),
    ];
    let mut other = from("127.0.0.17", gateway.http).await.unwrap();
    for stream in [&mut tunnel, &mut other] {
        stream.write_all(connect.as_bytes()).await.unwrap();
        assert_eq!(status(&head(stream).await), 200);
    }
    kept.write_all(format!("HEAD {url} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(status(&head(&mut kept).await), 200);
    waiting.write_all(format!("GET http://{silent}/ HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    datagrams.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    let mut reply = [0; 12];
    timeout(PATIENCE, datagrams.read_exact(&mut reply)).await.unwrap().unwrap();
    assert_eq!(reply[3], 0, "{reply:?}");
    let until = Instant::now() + PATIENCE;
    while owner.client().get::<Vec<UserStatus>>("/v1/users").await.unwrap()[0].requests < 4 {
        assert!(Instant::now() < until, "all are served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let revoked = owner.revoke("127.0.0.1", false).await.unwrap();
    assert_eq!((revoked.user.as_str(), revoked.revoked), ("127.0.0.1", true));
    let began = Instant::now();
    assert_eq!(text(&mut tunnel).await, "", "it ends");
    assert_eq!(text(&mut datagrams).await, "", "so does the association");
    let said = head(&mut waiting).await;
    assert_eq!(status(&said), 403, "whoever waits is told: {said}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    kept.write_all(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let answer = text(&mut kept).await;
    assert_eq!(status(&answer), 403, "{answer}");
    assert!(answer.contains("the owner of this line has taken back your access"), "{answer}");
    assert!(!answer.to_lowercase().contains("retry-after"), "{answer}");
    assert_eq!(gateway.status(&url).await, 403);
    assert_eq!(socks_reply(&gateway, echo.port()).await, 2, "not allowed by ruleset");
    other.write_all(b"still here").await.unwrap();
    let mut back = [0; 10];
    timeout(PATIENCE, other.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back, b"still here");
    let users: Vec<UserStatus> = owner.client().get("/v1/users").await.unwrap();
    assert_eq!(users.iter().map(|user| user.standing.as_str()).collect::<Vec<_>>(), ["revoked", "free"]);

    gateway.stop().await;
    let gateway = Running::start(&ports, &owner.config()).await;
    assert_eq!(gateway.status(&url).await, 403, "also after a restart");
    assert_eq!(owner.status().await.revoked, ["127.0.0.1"]);
    owner.revoke("127.0.0.1", true).await.unwrap();
    assert_eq!(gateway.status(&url).await, 200);
    assert_eq!(socks_reply(&gateway, echo.port()).await, 0);
}

#[tokio::test]
async fn a_user_with_a_password_is_told_that_access_is_gone() {
    let (objects, owner, (_file, users)) = (objects().await, Owner::new(), users());
    let gateway = Running::start(&[objects.port()], &format!("{users}{}", owner.config())).await;
    for (user, undo, why) in [
        ("anne", false, "nobody is called \"anne\""),
        ("ann", true, "ann has access"),
        ("9.9.9.9", false, "nobody"),
    ] {
        let error = owner.revoke(user, undo).await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(said) if said.contains(why)), "{error}");
    }
    // Before her first request.
    owner.revoke("ann", false).await.unwrap();
    let ann = authorization("ann", PASSWORD);
    let request =
        format!("GET http://{objects}/10 HTTP/1.1\r\nHost: x\r\nProxy-{ann}\r\nConnection: close\r\n\r\n");
    let answer = gateway.say(&request).await;
    assert_eq!(status(&answer), 403, "a right password is not asked for again: {answer}");
    owner.revoke("ann", true).await.unwrap();
    assert_eq!(status(&gateway.say(&request).await), 200);
}

#[tokio::test]
async fn a_connection_counts_for_the_name_that_was_given() {
    let (echo, owner, (_file, with)) = (echo().await, Owner::new(), users());
    let gateway = Running::start(&[echo.port()], &format!("{with}\n{}", owner.config())).await;
    let ann = authorization("ann", PASSWORD);
    let request = format!("CONNECT {echo} HTTP/1.1\r\nHost: x\r\nProxy-{ann}\r\n\r\n");
    let mut running = gateway.client().await;
    running.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&head(&mut running).await), 200);
    let users: Vec<UserStatus> = owner.client().get("/v1/users").await.unwrap();
    let connections: Vec<(&str, usize)> =
        users.iter().map(|user| (user.name.as_str(), user.connections)).collect();
    assert_eq!(connections, [("127.0.0.1", 0), ("ann", 1)]);
    let status = owner.status().await;
    assert_eq!((status.users, status.connections), (1, 1));
}

#[tokio::test]
async fn whoever_is_not_heard_is_told_why() {
    let (objects, owner) = (objects().await, Owner::new());
    let more = format!("limits = {{ connections_per_user = 1 }}\n{}", owner.config());
    let gateway = Running::start(&[objects.port()], &more).await;
    let request = format!("GET http://{objects}/10 HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut stranger = from("127.0.0.40", gateway.http).await.unwrap();
    stranger.write_all(request.as_bytes()).await.unwrap();
    let answer = text(&mut stranger).await;
    assert_eq!(status(&answer), 403, "{answer}");
    let every = "leeway gateway: your address may not use this gateway\n\
                 leeway gateway: tu dirección no puede usar esta pasarela\n\
                 leeway gateway: la teva adreça no pot fer servir aquesta passarel·la\n";
    assert!(answer.ends_with(every), "{answer}");
    let mut stranger = from("127.0.0.40", gateway.socks).await.unwrap();
    stranger.write_all(&[5, 1, 0]).await.unwrap();
    assert_eq!(text(&mut stranger).await.as_bytes(), "\u{5}\u{fffd}".as_bytes(), "no method will do");

    let mut first = gateway.client().await;
    first.write_all(b"GET ").await.unwrap();
    let mut second = gateway.client().await;
    second.write_all(request.as_bytes()).await.unwrap();
    let answer = text(&mut second).await;
    assert_eq!(status(&answer), 429, "{answer}");
    assert!(answer.contains("too many connections") && answer.contains("Retry-After: 5"), "{answer}");
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let owner = Owner::new();
    let nobody = Client::new(Path::new("/nonexistent/gateway.sock")).get::<Status>("/v1/status").await;
    assert!(nobody.unwrap_err().to_string().contains("no gateway is running here"));
    let _gateway = Running::start(&[], &owner.config()).await;
    for (seconds, words) in [(0, "from 1 s to 366 days"), (i64::MAX, "from 1 s to 366 days")] {
        let error = owner.pause(Some(seconds)).await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(said) if said.contains(words)), "{error}");
    }
    let error = owner.client().post::<Status>("/v1/pause", &serde_json::json!({"hours": 2})).await;
    assert!(error.unwrap_err().to_string().contains("unknown field `hours`"));
    for list in [serde_json::json!([]), serde_json::json!([5])] {
        let error = owner.client().post::<Status>("/v1/pause", &list).await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(said) if said.contains("a JSON object")), "{error}");
    }
    let error = owner.client().get::<Status>("/v2/status").await.unwrap_err();
    assert!(error.to_string().contains("nothing at this path"), "{error}");
    // Who says no HTTP, or only a part of it, holds up nobody.
    let mut odd = UnixStream::connect(owner.socket()).await.unwrap();
    odd.write_all(b"GET /v1/st").await.unwrap();
    let mut rude = UnixStream::connect(owner.socket()).await.unwrap();
    rude.write_all(&[0xff; 100_000]).await.ok();
    assert_eq!(owner.status().await.sharing, Sharing::On);
}
