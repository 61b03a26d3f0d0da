//! Shows a server's functions and workers, with the blocking face.
//!
//! `cargo run --example admin_blocking -- 127.0.0.1:4730`

use std::{env, error::Error};

use gearman_client::blocking::Admin;

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4730".into());
    let mut admin = Admin::connect(address)?;
    println!("gearmand {} (process {})", admin.version()?, admin.getpid()?);
    for function in &admin.status()? {
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
