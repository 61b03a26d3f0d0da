//! A pool of r2d2, for blocking clients that ask and take jobs: puts need none, a `Producer` is shared as it is.
//!
//! `cargo run --example pool_r2d2 -- 127.0.0.1:11300`

use beanstalk_client::{ConnectOptions, Error, blocking::Client};

struct Manager(ConnectOptions);

impl r2d2::ManageConnection for Manager {
    type Connection = Client;
    type Error = Error;

    fn connect(&self) -> Result<Client, Error> {
        Client::connect(self.0.clone())
    }

    /// The next user finds the tubes of a new client, and no job of the previous one.
    fn is_valid(&self, client: &mut Client) -> Result<(), Error> {
        client.reset()
    }

    fn has_broken(&self, client: &mut Client) -> bool {
        !client.is_connected()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: pool_r2d2 ADDRESS")?;
    let pool = r2d2::Pool::builder().max_size(2).build(Manager(address.parse()?))?;
    for _ in 0..10 {
        let mut client = pool.get()?;
        client.use_tube("pooled")?;
        client.watch("pooled")?;
    }
    let mut client = pool.get()?;
    println!("watches {:?}", client.list_tubes_watched()?);
    Ok(())
}
