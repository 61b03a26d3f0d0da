//! Shows a server's functions and workers, with the async face.
//!
//! `cargo run --example admin -- 127.0.0.1:4730`

use std::{env, error::Error};

use gearman_client::Admin;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4730".into());
    let mut admin = Admin::connect(address).await?;
    println!("gearmand {} (process {})", admin.version().await?, admin.getpid().await?);
    for function in &admin.status().await? {
        println!(
            "{}: {} queued, {} running, {} workers",
            function.name,
            function.queued(),
            function.running,
            function.workers
        );
    }
    Ok(())
}
