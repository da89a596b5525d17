//! Requests at given times, whether or not earlier ones have been answered (an open loop).
//!
//! Service times count from the intended time of a request, so that a slow answer does not hide
//! the requests that had to wait for it (coordinated omission).

use crate::server::{Zeros, socket};
use crate::stats::Tally;
use http_body_util::BodyExt;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::LocalSet;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Requests a second of all users together, at exponentially distributed distances (a Poisson
    /// process).
    Poisson(f64),
    /// Requests a second of all users together, at equal distances.
    Even(f64),
    /// As soon as a connection is free: each connection always has a request under way.
    Closed,
}

/// Direction of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the server.
    Down,
    /// To the server.
    Up,
}

/// The load of one class of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Number of users.
    pub users: usize,
    /// Most requests that a user has under way; further ones wait in the client.
    pub connections: usize,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// Direction of the objects.
    pub direction: Direction,
    /// Pause of a connection after each answer: evenly distributed between these times.
    pub think: Option<(Duration, Duration)>,
    /// Whether connections are kept. Otherwise each request opens a new one.
    pub keep: bool,
}

/// Where requests come from and where they go.
#[derive(Debug, Clone)]
pub struct Ends {
    /// The users' own addresses.
    pub users: Vec<IpAddr>,
    /// The web server.
    pub server: SocketAddr,
    /// The proxy to ask, if any.
    pub proxy: Option<SocketAddr>,
    /// The value of `Proxy-Authorization` (RFC 9110, 11.7.2), if the proxy wants a user and a
    /// password.
    pub login: Option<String>,
    /// The congestion control of uploads, by the kernel's name.
    pub congestion: String,
}

/// When a load begins, counts and ends.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Earliest time of a request.
    pub start: Instant,
    /// Requests intended from this time on are counted.
    pub counted: Instant,
    /// End of the requests.
    pub end: Instant,
    /// Longest wait for answers after the end.
    pub patience: Duration,
}

impl Load {
    /// Sends the requests from the calling thread's network, and returns their outcome. The same
    /// seed gives the same times.
    ///
    /// # Errors
    /// The runtime cannot be started. Requests that fail are counted.
    pub fn run(&self, ends: &Ends, span: Span, seed: u64) -> io::Result<Tally> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tally = Rc::new(RefCell::new(Tally::new(span)));
        runtime.block_on(LocalSet::new().run_until(self.play(ends, span, seed, &tally)));
        // Tasks and their connections end here; requests under way remain unanswered.
        drop(runtime);
        let mut tally = tally.take();
        tally.close(Instant::now());
        Ok(tally)
    }

    async fn play(&self, ends: &Ends, span: Span, seed: u64, tally: &Rc<RefCell<Tally>>) {
        tokio::time::sleep_until(span.start.into()).await;
        let mut queues = Vec::new();
        for user in 0..self.users {
            let (sender, queue) = mpsc::unbounded_channel();
            let queue = Rc::new(Mutex::new(queue));
            queues.push(sender);
            for connection in 0..self.connections {
                let worker = Worker {
                    load: self.clone(),
                    from: ends.users[user % ends.users.len()],
                    ends: ends.clone(),
                    span,
                    tally: tally.clone(),
                    random: random(seed, 1 + (user * self.connections + connection) as u64),
                    kept: None,
                };
                let queue = (self.arrivals != Arrivals::Closed).then(|| queue.clone());
                tokio::task::spawn_local(worker.work(queue));
            }
        }
        let mut random = random(seed, 0);
        let mut next = 0.0;
        let mut number = 0;
        loop {
            let gap = match self.arrivals {
                Arrivals::Poisson(rate) => -(1.0 - random.random::<f64>()).ln() / rate,
                Arrivals::Even(rate) => 1.0 / rate,
                Arrivals::Closed => f64::INFINITY,
            };
            next += gap;
            let left = span.end.saturating_duration_since(span.start).as_secs_f64();
            if next >= left {
                break;
            }
            let intended = span.start + Duration::from_secs_f64(next);
            tokio::time::sleep_until(intended.into()).await;
            tally.borrow_mut().intend(number, intended);
            // The receiving ends live as long as the workers, which live as long as this.
            let _ = queues[number as usize % queues.len()].send((number, intended));
            number += 1;
        }
        tokio::time::sleep_until(span.end.into()).await;
        let deadline = span.end + span.patience;
        while tally.borrow().waits() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn random(seed: u64, stream: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

type Queue = Rc<Mutex<mpsc::UnboundedReceiver<(u64, Instant)>>>;

/// One connection of one user.
struct Worker {
    load: Load,
    from: IpAddr,
    ends: Ends,
    span: Span,
    tally: Rc<RefCell<Tally>>,
    random: Xoshiro256PlusPlus,
    kept: Option<SendRequest<Zeros>>,
}

impl Worker {
    async fn work(mut self, queue: Option<Queue>) {
        loop {
            let number = match &queue {
                Some(queue) => {
                    let next = queue.lock().await.recv().await;
                    let Some((number, _)) = next else { return };
                    number
                }
                None => {
                    let now = Instant::now();
                    if now >= self.span.end {
                        return;
                    }
                    self.tally.borrow_mut().intend_next(now)
                }
            };
            let well = self.request().await.is_ok();
            self.tally.borrow_mut().answered(number, Instant::now(), well);
            if !well && queue.is_none() {
                // After a failure a closed-loop user waits before the next request.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if let Some((least, most)) = self.load.think {
                tokio::time::sleep(least + (most - least).mul_f64(self.random.random())).await;
            }
        }
    }

    async fn request(&mut self) -> Result<(), Failed> {
        let (mut sender, used) = match self.kept.take() {
            Some(sender) if !sender.is_closed() => (sender, true),
            _ => (self.connect().await?, false),
        };
        match self.ask(&mut sender).await {
            // The server may have closed a kept connection meanwhile.
            Err(_) if used => {
                sender = self.connect().await?;
                self.ask(&mut sender).await?;
            }
            asked => asked?,
        }
        if self.load.keep {
            self.kept = Some(sender);
        }
        Ok(())
    }

    async fn connect(&self) -> Result<SendRequest<Zeros>, Failed> {
        let target = self.ends.proxy.unwrap_or(self.ends.server);
        let socket = socket(target, &self.ends.congestion)?;
        socket.bind(SocketAddr::new(self.from, 0))?;
        let stream = socket.connect(target).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::task::spawn_local(connection);
        Ok(sender)
    }

    async fn ask(&self, sender: &mut SendRequest<Zeros>) -> Result<(), Failed> {
        let (path, upload) = match self.load.direction {
            Direction::Down => (self.load.object_bytes, 0),
            Direction::Up => (0, self.load.object_bytes),
        };
        let server = self.ends.server;
        let target = match self.ends.proxy {
            Some(_) => format!("http://{server}/{path}"),
            None => format!("/{path}"),
        };
        let method = if self.load.direction == Direction::Up { "PUT" } else { "GET" };
        let mut request =
            Request::builder().method(method).uri(target).header(header::HOST, server.to_string());
        if !self.load.keep {
            request = request.header(header::CONNECTION, "close");
        }
        if let Some(login) = &self.ends.login {
            request = request.header(header::PROXY_AUTHORIZATION, login);
        }
        let request = request.body(Zeros(upload)).map_err(|_| Failed)?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut got = 0;
        while let Some(frame) = body.frame().await {
            let bytes = frame?.data_ref().map_or(0, |data| data.len() as u64);
            self.tally.borrow_mut().moved(Instant::now(), bytes);
            got += bytes;
        }
        if status != StatusCode::OK || got != path {
            return Err(Failed);
        }
        self.tally.borrow_mut().moved(Instant::now(), upload);
        Ok(())
    }
}

/// A request that failed. The reason does not matter to the user who waited.
#[derive(Debug)]
struct Failed;

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Failed
    }
}

impl From<hyper::Error> for Failed {
    fn from(_: hyper::Error) -> Self {
        Failed
    }
}
