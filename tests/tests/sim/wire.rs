//! A client's end of a simulated connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::world::{Arrived, World};

pub struct Wire {
    world: World,
    number: u64,
}

impl Wire {
    pub fn new(world: World, number: u64) -> Self {
        Wire { world, number }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.world.read(self.number, buf.initialize_unfilled(), cx.waker()) {
            Arrived::Bytes(count) => buf.advance(count),
            Arrived::End => {}
            Arrived::Reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Arrived::Nothing => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.world.write(self.number, bytes)? {
            Some(count) => Poll::Ready(Ok(count)),
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.world.half_close(self.number);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.world.hang_up(self.number);
    }
}
