//! Serves a file to whoever connects, under a law that yields:
//!
//! ```text
//! cargo run --release --example server -- 127.0.0.1:4433 photos.tar ledbat:target=25ms
//! ```
//!
//! The server's certificate is written to `server.der`, for the client.

use leeway_quinn::{LawController, LawFactory, LawSpec};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::fs::File;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: server ADDRESS FILE [LAW]";
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or(usage)?.parse()?;
    let file = arguments.next().ok_or(usage)?;
    let law: LawSpec = arguments.next().as_deref().unwrap_or("ledbat:target=25ms").parse()?;

    let key = rcgen::generate_simple_self_signed(["localhost".into()])?;
    std::fs::write("server.der", key.cert.der())?;
    let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
    let mut server = quinn::ServerConfig::with_single_cert(vec![key.cert.der().clone()], secret)?;

    // The two lines that matter: connections of this server send under the law.
    let mut transport = quinn::TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(LawFactory::new(law)));
    server.transport_config(Arc::new(transport));

    let endpoint = quinn::Endpoint::server(server, address)?;
    println!("serving {file} at {}", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        let file = file.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(incoming, &file).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

async fn serve(incoming: quinn::Incoming, file: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let connection = incoming.await?;
    let mut stream = connection.open_uni().await?;
    let bytes = tokio::io::copy(&mut File::open(file).await?, &mut stream).await?;
    stream.finish()?;
    stream.stopped().await?;
    let state = connection.congestion_state().into_any().downcast::<LawController>();
    if let Ok(law) = state {
        let (output, srtt) = (law.output(), connection.rtt());
        let (window, delay) = (output.cwnd_q16 >> 16, output.queuing_delay_us);
        println!(
            "{}: {bytes} B under {}: window {window} B, queuing delay {delay} us, RTT {srtt:?}",
            connection.remote_address(),
            law.law(),
        );
    }
    Ok(())
}
