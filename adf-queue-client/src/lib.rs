//! The protocol of Adf.QueueServer, without a socket.
//!
//! A server has queues of messages. A message is pushed to either end, pulled from the left, and then deleted or put back
//! by whoever pulled it. There is no persistence, no time to run and no limit on how long a pull waits.
//!
//! [`protocol::Request`] and [`protocol::Response`] are the ten actions and their answers. [`protocol::Encoding`] makes
//! bytes of one and the other of bytes: `Binary` carries any body of up to 65,535 bytes, `Json` carries text of any
//! length.
//!
//! ```
//! use adf_queue_client::{MessageId, protocol::{Encoding, Request, Success}};
//!
//! let push = Request::rpush("1".parse()?, "/q".parse()?, "hi");
//! let mut frame = bytes::BytesMut::new();
//! Encoding::Binary.encode(&push, &mut frame)?;
//! assert_eq!(&frame[..], b"\x02\0\x011\0\x02/q\0\x02hi");
//!
//! let answer = Encoding::Binary.decode(b"\x02\0\x011\0\x02/q\0\x02ok\0\0\0\0\0\0\0\x01"[..].into())?;
//! assert!(answer.answers(&push));
//! assert_eq!(answer.outcome?, Success::Pushed(MessageId::from(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]

mod address;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "tokio")]
mod client;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod deadline;
mod delivery;
mod error;
#[cfg(feature = "tokio")]
mod link;
mod names;
mod options;
pub mod protocol;
mod servers;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod trace;

#[cfg(feature = "tokio")]
pub use queue_core::Stream;
#[cfg(feature = "__rustls")]
pub use queue_core::TlsOptions;
pub use queue_core::{ConnectionState, Endpoint, Epoch, Fate, RetryPolicy};

#[cfg(feature = "tokio")]
pub use self::client::Client;
pub use self::{
    address::{Address, Transport},
    delivery::Delivery,
    error::{Deadline, Error, ErrorKind},
    names::{MessageId, QueueName, RequestId},
    options::ConnectOptions,
    protocol::{QueueStats, Refusal, Stats},
    servers::{Selection, Servers},
};

/// What a client has done so far, in numbers; errors by their [`ErrorKind`].
pub type Metrics = queue_core::Metrics<ErrorKind>;

/// What a call comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;
