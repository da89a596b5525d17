//! Fetches what the example server serves:
//!
//! ```text
//! cargo run --release --example client -- 127.0.0.1:4433 copy.tar
//! ```

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::fs::File;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: client ADDRESS FILE";
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().ok_or(usage)?.parse()?;
    let file = arguments.next().ok_or(usage)?;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read("server.der")?))?;
    let mut endpoint = quinn::Endpoint::client(match address {
        SocketAddr::V4(_) => "0.0.0.0:0".parse()?,
        SocketAddr::V6(_) => "[::]:0".parse()?,
    })?;
    endpoint.set_default_client_config(quinn::ClientConfig::with_root_certificates(Arc::new(roots))?);

    let begin = Instant::now();
    let connection = endpoint.connect(address, "localhost")?.await?;
    let mut stream = connection.accept_uni().await?;
    // A file that is there already is not overwritten.
    let mut copy = File::create_new(&file).await.map_err(|error| format!("{file}: {error}"))?;
    let bytes = tokio::io::copy(&mut stream, &mut copy).await?;
    println!("{file}: {bytes} B in {:.2} s", begin.elapsed().as_secs_f64());
    connection.close(0u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}
