//! Works until SIGTERM, and prints what it did: `service mail|thumbnails|orders SERVERS`.
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(part), Some(servers)) = (arguments.next(), arguments.next()) else {
        return Err("usage: service mail|thumbnails|orders SERVERS".into());
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move { terminate.recv().await };
    match part.as_str() {
        "mail" => println!("{}", user::mail::serve(&servers, stop, print).await?),
        "orders" => println!("{}", user::orders::serve(&servers, stop, print).await?),
        "thumbnails" => {
            let make = |picture: String| Ok(picture.to_lowercase());
            println!("{}", user::thumbnails::serve(&servers, stop, make).await?);
        }
        _ => return Err(format!("no part of the service: {part}").into()),
    }
    Ok(())
}

fn print(body: String) -> Result<(), String> {
    println!("done: {body}");
    Ok(())
}
