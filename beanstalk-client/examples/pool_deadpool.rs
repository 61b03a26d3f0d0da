//! A pool of deadpool, for clients that ask and take jobs: puts need none, a `Producer` is shared as it is.
//!
//! `cargo run --example pool_deadpool -- 127.0.0.1:11300`

use beanstalk_client::{Client, ConnectOptions, Error};
use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};

struct Manager(ConnectOptions);

impl managed::Manager for Manager {
    type Type = Client;
    type Error = Error;

    async fn create(&self) -> Result<Client, Error> {
        Client::connect(self.0.clone()).await
    }

    /// The next user finds the tubes of a new client, and no job of the one before.
    async fn recycle(&self, client: &mut Client, _: &Metrics) -> RecycleResult<Error> {
        client.reset().await.map_err(RecycleError::Backend)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: pool_deadpool ADDRESS")?;
    let pool = managed::Pool::<Manager>::builder(Manager(address.parse()?)).max_size(2).build()?;
    for _ in 0..10 {
        let mut client = pool.get().await?;
        client.use_tube("pooled").await?;
        client.watch("pooled").await?;
    }
    let mut client = pool.get().await?;
    println!("watches {:?}", client.list_tubes_watched().await?);
    Ok(())
}
