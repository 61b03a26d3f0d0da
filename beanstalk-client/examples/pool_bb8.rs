//! A pool of bb8, for clients that ask and take jobs: puts need none, a `Producer` is shared as it is.
//!
//! `cargo run --example pool_bb8 -- 127.0.0.1:11300`

use beanstalk_client::{Client, ConnectOptions, Error};

struct Manager(ConnectOptions);

impl bb8::ManageConnection for Manager {
    type Connection = Client;
    type Error = Error;

    async fn connect(&self) -> Result<Client, Error> {
        Client::connect(self.0.clone()).await
    }

    /// The next user finds the tubes of a new client, and no job of the previous one.
    async fn is_valid(&self, client: &mut Client) -> Result<(), Error> {
        client.reset().await
    }

    fn has_broken(&self, client: &mut Client) -> bool {
        !client.is_connected()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: pool_bb8 ADDRESS")?;
    let pool = bb8::Pool::builder().max_size(2).build(Manager(address.parse()?)).await?;
    for _ in 0..10 {
        let mut client = pool.get().await?;
        client.use_tube("pooled").await?;
        client.watch("pooled").await?;
    }
    let mut client = pool.get().await?;
    println!("watches {:?}", client.list_tubes_watched().await?);
    Ok(())
}
