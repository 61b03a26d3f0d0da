//! Sockets of the async face that notice promptly when the peer has closed.

use std::{
    io::{
        self,
        ErrorKind::{Interrupted, WouldBlock},
        Read,
    },
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::dial::socket::{Acks, WRITE_SIZE, portion, write_size};

/// After this time without use, the operating system is asked instead of the runtime. A quicker sequence of exchanges
/// does not pay for that.
const IDLE: Duration = Duration::from_micros(100);

/// A socket that asks the operating system whether something has arrived, if it was unused for a while.
///
/// A runtime learns of received data when one of its threads polls for events, and reports nothing until then. On a
/// busy machine that takes a while, and a caller that checks before it writes would write to a server that closed the
/// connection long ago. The fate of that request would be unknown.
pub(crate) struct AckAware<S> {
    socket: S,
    used_at: Instant,
    acks: Acks,
}

impl<S> AckAware<S>
where
    for<'a> SockRef<'a>: From<&'a S>,
{
    pub(crate) fn new(socket: S, acks: Acks) -> Self {
        AckAware { socket, used_at: Instant::now(), acks }
    }

    fn has_written<T>(&mut self, outcome: Poll<T>) -> Poll<T> {
        if outcome.is_ready() {
            self.used_at = Instant::now();
            self.acks.has_written();
        }
        outcome
    }

    fn has_read(&mut self, outcome: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if outcome.is_ready() {
            self.used_at = Instant::now();
            self.acks.has_read();
        } else {
            self.acks.waits(&self.socket);
        }
        outcome
    }
}

impl<S> AsyncRead for AckAware<S>
where
    S: AsyncRead + Unpin,
    for<'a> SockRef<'a>: From<&'a S>,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.socket).poll_read(cx, buf);
        if outcome.is_ready() || self.used_at.elapsed() <= IDLE {
            return self.has_read(outcome);
        }
        // For anything that arrives later, the runtime wakes the caller.
        let space = buf.initialize_unfilled();
        let outcome = match (&*SockRef::from(&self.socket)).read(space) {
            Ok(n) => {
                buf.advance(n);
                Poll::Ready(Ok(()))
            }
            // Only the runtime can tell.
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        };
        self.has_read(outcome)
    }
}

impl<S> AsyncWrite for AckAware<S>
where
    S: AsyncWrite + Unpin,
    for<'a> SockRef<'a>: From<&'a S>,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = portion(bytes, || write_size(SockRef::from(&self.socket)));
        let outcome = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.has_written(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let most = match total {
            ..=WRITE_SIZE => total,
            _ => write_size(SockRef::from(&self.socket)),
        };
        let fitting = slices.iter().scan(0, |sum, slice| {
            *sum += slice.len();
            (*sum <= most).then_some(())
        });
        let fitting = fitting.count();
        let socket = Pin::new(&mut self.socket);
        let outcome = match (slices.get(..fitting), slices.first()) {
            (None | Some([]), Some(first)) => socket.poll_write(cx, portion(first, || most)),
            (several, _) => socket.poll_write_vectored(cx, several.unwrap_or_default()),
        };
        self.has_written(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, net::TcpListener, thread};

    use tokio::net::TcpStream;

    use super::*;

    /// Polls repeatedly for at most this long, without giving the runtime a chance to poll for events.
    async fn look(patience: Duration, act: impl FnOnce(std::net::TcpStream)) -> Option<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut stream = AckAware::new(stream, Acks::new(false));
        act(listener.accept().unwrap().0);
        let mut space = [0; 8];
        let start = Instant::now();
        while start.elapsed() < patience {
            thread::sleep(2 * IDLE);
            let mut space = ReadBuf::new(&mut space);
            let look = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_read(cx, &mut space)));
            if let Poll::Ready(outcome) = look.await {
                outcome.unwrap();
                return Some(space.filled().to_vec());
            }
        }
        None
    }

    /// Longer than the system takes to deliver what a peer did.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn detects_the_end_of_an_idle_connection_before_the_runtime() {
        assert_eq!(look(PATIENCE, drop).await.as_deref(), Some(&b""[..]));
    }

    #[tokio::test]
    async fn reads_data_of_an_idle_connection_before_the_runtime() {
        let read = look(PATIENCE, |mut peer| io::Write::write_all(&mut peer, b"late").unwrap());
        assert_eq!(read.await.as_deref(), Some(&b"late"[..]));
    }

    #[tokio::test]
    async fn a_silent_peer_is_not_end_of_stream() {
        let mut kept = None;
        assert_eq!(look(10 * IDLE, |peer| kept = Some(peer)).await, None);
    }

    /// Accepts everything it is offered, and records the sizes. Its socket only has a send buffer.
    #[cfg(unix)]
    struct Greedy(Vec<usize>, socket2::Socket);

    #[cfg(unix)]
    impl std::os::fd::AsFd for Greedy {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.1.as_fd()
        }
    }

    #[cfg(unix)]
    impl AsyncWrite for Greedy {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            slices: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.poll_write(cx, &slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<_>>())
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[cfg(unix)]
    fn greedy(send_buffer: usize) -> AckAware<Greedy> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.set_send_buffer_size(send_buffer).unwrap();
        AckAware::new(Greedy(Vec::new(), socket), Acks::new(false))
    }

    #[cfg(unix)]
    #[test]
    fn writes_large_data_in_pieces() {
        let mut stream = greedy(1);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let large = vec![7; 1_000_000];
        for bytes in [&large[..], b"small"] {
            assert!(Pin::new(&mut stream).poll_write(&mut cx, bytes).is_ready());
        }
        let half = &large[..WRITE_SIZE / 2];
        for slices in
            [&[&large[..], half][..], &[half, half, half], &[b"a", b"b"], &[half, &large], &[]]
        {
            let slices: Vec<_> = slices.iter().map(|slice| io::IoSlice::new(slice)).collect();
            assert!(Pin::new(&mut stream).poll_write_vectored(&mut cx, &slices).is_ready());
        }
        let expected = [WRITE_SIZE, 5, WRITE_SIZE, WRITE_SIZE, 2, WRITE_SIZE / 2, 0];
        assert_eq!(stream.socket.0, expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_large_send_buffer_is_filled_in_a_few_writes() {
        let mut stream = greedy(100_000);
        let buffer = stream.socket.1.send_buffer_size().unwrap();
        assert!(buffer / 8 > WRITE_SIZE, "{buffer}");
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let large = vec![7; 1_000_000];
        assert!(Pin::new(&mut stream).poll_write(&mut cx, &large).is_ready());
        let slices = [&large[..buffer / 16], &large[..buffer / 16], &large];
        let slices = slices.map(io::IoSlice::new);
        assert!(Pin::new(&mut stream).poll_write_vectored(&mut cx, &slices).is_ready());
        assert_eq!(stream.socket.0, [buffer / 8, 2 * (buffer / 16)]);
    }

    /// The times of round trips.
    #[cfg(target_os = "linux")]
    async fn times(acks: Acks) -> Vec<Duration> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let socket = TcpStream::connect(crate::dial::socket::tests::in_two_parts()).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let mut stream = AckAware::new(socket, acks);
        let mut times = Vec::new();
        for _ in 0..64 {
            let start = Instant::now();
            stream.write_all(b"?").await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
            times.push(start.elapsed());
        }
        // At first, and after a pause, the operating system acknowledges up to 16 segments at once.
        times.split_off(32)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_second_part_of_an_answer_does_not_wait_for_the_first_to_be_acknowledged() {
        let (held, prompt) = (times(Acks::new(false)).await, times(Acks::new(true)).await);
        let (held, prompt) = (*held.iter().max().unwrap(), *prompt.iter().min().unwrap());
        assert!(2 * prompt < held, "{prompt:?} against {held:?}");
    }
}
