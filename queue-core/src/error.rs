//! Why something failed, and whether the server may have acted on it.

pub(crate) mod deadline;
pub(crate) mod fate;
pub(crate) mod limit;

use std::{
    borrow::Cow, convert::Infallible, error::Error as StdError, fmt, io, iter, sync::Arc,
    time::Duration,
};

use crate::{Deadline, Fate, options::duration::rounded, text::shorten};

/// Why a call failed: the kind `K` of failure, whether the server may have acted, and further details `A` of the call.
///
/// Without parameters it is the source of every client's own error: for a failure to connect, an invalid address, or a
/// step not done in time. Nothing was sent then.
///
/// Its text ends with that of its cause, so [`source`](StdError::source) returns the cause of that cause, and printing
/// the chain of errors repeats nothing. [`io_error`](Self::io_error) finds an error of the operating system at any
/// depth.
pub struct Error<K = ErrorKind, A = ()>(Box<Inner<K, A>>);

#[derive(Clone)]
struct Inner<K, A> {
    kind: K,
    fate: Fate,
    /// Includes the text of the cause.
    message: Cow<'static, str>,
    /// The server that was asked.
    server: Option<Arc<str>>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
    about: A,
}

/// The kind of failure of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An unusable value.
    InvalidInput,
    /// No connection could be made; the message names every address that was tried.
    Connect,
    /// The TLS handshake failed, or the TLS options cannot be used.
    Tls,
    /// A deadline passed.
    Timeout(Deadline),
}

/// Details of the failed call, provided by the client.
pub trait About: Clone + Default {
    /// The request, which the text begins with.
    fn subject(&self) -> Option<&str>;

    /// Adds details to `Debug` that the text does not have.
    fn debug(&self, to: &mut fmt::DebugStruct<'_, '_>) {
        let _ = to;
    }
}

impl About for () {
    fn subject(&self) -> Option<&str> {
        None
    }
}

/// Why no server does: the only failure, or what `all` makes of the last one and the texts of all; `None` without any.
#[doc(hidden)]
pub fn failure_of_all<E: fmt::Display>(
    mut failures: Vec<E>,
    all: impl FnOnce(&E, String) -> E,
) -> Option<E> {
    let texts: Vec<String> = failures.iter().map(E::to_string).collect();
    let last = failures.pop()?;
    Some(if failures.is_empty() { last } else { all(&last, texts.join("; ")) })
}

#[doc(hidden)]
impl<K, A: Default> Error<K, A> {
    /// A failure of this kind and fate.
    pub fn new(kind: K, fate: Fate, message: impl Into<Cow<'static, str>>) -> Self {
        let message = shorten(message.into());
        let (server, cause, about) = (None, None, A::default());
        Error(Box::new(Inner { kind, fate, message, server, cause, about }))
    }

    /// The client's error for a failure to connect, an invalid address, or an expired deadline.
    #[must_use]
    pub fn of(error: Error) -> Self
    where
        K: From<ErrorKind>,
    {
        let Inner { kind, fate, message, server, cause, about: () } = *error.0;
        let (kind, about) = (kind.into(), A::default());
        Error(Box::new(Inner { kind, fate, message, server, cause, about }))
    }

    /// A copy of the error for another caller that it affects, with that caller's context.
    #[must_use]
    pub fn share(&self) -> Self
    where
        K: Clone,
    {
        let Inner { kind, fate, message, server, cause, about: _ } = &*self.0;
        let (kind, message, about) = (kind.clone(), message.clone(), A::default());
        let (server, cause) = (server.clone(), cause.clone());
        Error(Box::new(Inner { kind, fate: *fate, message, server, cause, about }))
    }
}

impl<K, A> Error<K, A> {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> &K {
        &self.0.kind
    }

    /// Whether the server may have acted.
    #[must_use]
    pub fn fate(&self) -> Fate {
        self.0.fate
    }

    /// The address of the server that was asked, if it was one.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Details of the call.
    #[doc(hidden)]
    #[must_use]
    pub fn about(&self) -> &A {
        &self.0.about
    }

    /// Mutable details of the call.
    #[doc(hidden)]
    pub fn about_mut(&mut self) -> &mut A {
        &mut self.0.about
    }

    /// The underlying error of the operating system, if any.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        let cause = self.0.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static));
        iter::successors(cause, |&cause| cause.source()).find_map(|cause| cause.downcast_ref())
    }
}

#[doc(hidden)]
impl<K, A> Error<K, A> {
    /// Sets the fate.
    #[must_use]
    pub fn with_fate(mut self, fate: Fate) -> Self {
        self.0.fate = fate;
        self
    }

    /// Sets the server that was asked, unless it is known.
    #[must_use]
    pub fn with_server(mut self, server: impl fmt::Display) -> Self {
        self.0.server.get_or_insert_with(|| server.to_string().into());
        self
    }

    /// Appends details to the message.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.0.message = shorten(format!("{}: {detail}", self.0.message).into());
        self
    }

    /// Sets the cause, and appends it to the message.
    #[must_use]
    pub fn with_source(self, cause: impl StdError + Send + Sync + 'static) -> Self {
        let mut error = self.with_detail(&cause);
        error.0.cause = Some(Arc::new(cause));
        error
    }

    /// Sets the cause, an error of the same client, and appends it to the message. If that has no cause, the
    /// present one stays.
    #[must_use]
    pub fn with_cause(self, cause: Self) -> Self
    where
        A: About,
    {
        let mut error = self.with_detail(&cause);
        error.0.cause = cause.0.cause.or(error.0.cause);
        error
    }

    /// Sets a cause that the message already contains.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: Option<io::Error>) -> Self {
        self.0.cause = cause.map(|cause| Arc::new(cause) as _);
        self
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[doc(hidden)]
impl Error {
    /// The error of a failure to connect to this address.
    pub fn cannot_connect(to: impl fmt::Display, cause: io::Error) -> Self {
        Self::no_connection(to).with_source(cause)
    }

    /// The error of a failure to connect to this address, without the cause.
    pub(crate) fn no_connection(to: impl fmt::Display) -> Self {
        Self::failed(ErrorKind::Connect, format!("cannot connect to {to}"))
    }

    /// The error of a passed deadline.
    #[must_use]
    pub fn timed_out(which: Deadline) -> Self {
        Self::failed(ErrorKind::Timeout(which), which.message())
    }

    /// The same, of this length, if it has one.
    #[must_use]
    pub fn timed_out_after(which: Deadline, time: impl Into<Option<Duration>>) -> Self {
        let Some(time) = time.into() else { return Self::timed_out(which) };
        let message = format!("{} of {}", which.message(), rounded(time));
        Self::failed(ErrorKind::Timeout(which), message)
    }

    /// The error of a failure of this kind before anything was sent.
    pub(crate) fn failed(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(kind, Fate::NotSent, message)
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::failed(ErrorKind::InvalidInput, message)
    }

    #[cfg(any(
        all(feature = "tokio", not(feature = "tls")),
        all(feature = "blocking", not(feature = "__rustls"))
    ))]
    pub(crate) fn no_tls() -> Self {
        Self::invalid("this build has no TLS: enable the feature `tls`")
    }
}

impl<K: Clone, A: Clone> Clone for Error<K, A> {
    fn clone(&self) -> Self {
        Error(self.0.clone())
    }
}

impl<K, A: About> fmt::Display for Error<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { fate, message, server, about, .. } = &*self.0;
        // A refusal is about the request, and other texts may name the server themselves.
        let server = server.as_deref();
        let server = server.filter(|server| *fate != Fate::Refused && !message.contains(server));
        match (about.subject(), server) {
            (Some(subject), Some(server)) => write!(f, "{subject} to {server}: ")?,
            (Some(name), None) | (None, Some(name)) => write!(f, "{name}: ")?,
            (None, None) => {}
        }
        f.write_str(message)
    }
}

impl<K: fmt::Debug, A: About> fmt::Debug for Error<K, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.0.kind).field("fate", &self.0.fate);
        self.0.about.debug(&mut shown);
        shown.field("message", &self.to_string()).finish()
    }
}

impl<K: fmt::Debug, A: About> StdError for Error<K, A> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().and_then(StdError::source)
    }
}

/// The common part of every client's error, without the details of its calls: a wrapper of [`Error`] with its own kind,
/// which includes the kinds of [`ErrorKind`].
#[doc(hidden)]
#[macro_export]
macro_rules! wrap_error {
    ($error:ident, $kind:ident) => {
        impl $error {
            /// Whether the server may have acted.
            #[must_use]
            pub fn fate(&self) -> $crate::Fate {
                self.0.fate()
            }

            /// The address of the server that was asked, if it was one. The text begins with the request and the
            /// server, unless the server has refused the request.
            #[must_use]
            pub fn server(&self) -> Option<&str> {
                self.0.server()
            }

            /// The underlying error of the operating system, if any: for example, that a connection was refused, or
            /// that this process has run out of file descriptors.
            #[must_use]
            pub fn io_error(&self) -> Option<&std::io::Error> {
                self.0.io_error()
            }

            pub(crate) fn new(
                kind: $kind,
                fate: $crate::Fate,
                message: impl Into<std::borrow::Cow<'static, str>>,
            ) -> Self {
                $error($crate::Error::new(kind, fate, message))
            }

            /// A value that cannot be sent.
            pub(crate) fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
                Self::new($kind::InvalidInput, $crate::Fate::NotSent, message)
            }

            /// The server violated the protocol.
            pub(crate) fn protocol(message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
                Self::new($kind::Protocol, $crate::Fate::Unknown, message)
            }

            /// A deadline passed.
            pub(crate) fn timed_out(which: impl Into<$crate::Deadline>) -> Self {
                $crate::Error::timed_out(which.into()).into()
            }

            /// Sets the server that was asked, unless it is known.
            pub(crate) fn with_server(self, server: impl std::fmt::Display) -> Self {
                $error(self.0.with_server(server))
            }

            /// Appends details to the message.
            pub(crate) fn with_detail(self, detail: impl std::fmt::Display) -> Self {
                $error(self.0.with_detail(detail))
            }

            /// Sets the cause, and appends it to the message.
            pub(crate) fn with_source(
                self,
                cause: impl std::error::Error + Send + Sync + 'static,
            ) -> Self {
                $error(self.0.with_source(cause))
            }

            /// Sets the cause, an error of this crate, and appends it to the message.
            pub(crate) fn with_cause(self, cause: $error) -> Self {
                $error(self.0.with_cause(cause.0))
            }

            /// Adds why an earlier attempt has failed, if the time of the whole call ended in this one.
            pub(crate) fn after(self, earlier: Option<$error>) -> Self {
                match earlier {
                    Some(earlier)
                        if matches!(self.0.kind(), $kind::Timeout($crate::Deadline::Total)) =>
                    {
                        self.with_cause(earlier)
                    }
                    _ => self,
                }
            }

            pub(crate) fn with_fate(self, fate: $crate::Fate) -> Self {
                $error(self.0.with_fate(fate))
            }
        }

        impl $crate::ConnectionError for $error {
            fn lost(why: std::io::Error) -> Self {
                Self::new($kind::ConnectionLost, $crate::Fate::Unknown, "the connection was lost")
                    .with_source(why)
            }

            fn abandoned() -> Self {
                let why = "the client's runtime has ended";
                Self::new($kind::ConnectionLost, $crate::Fate::Unknown, why)
            }

            fn fate(&self) -> $crate::Fate {
                self.0.fate()
            }

            fn with_fate(self, fate: $crate::Fate) -> Self {
                $error(self.0.with_fate(fate))
            }
        }

        impl From<$crate::ErrorKind> for $kind {
            fn from(kind: $crate::ErrorKind) -> Self {
                match kind {
                    $crate::ErrorKind::InvalidInput => $kind::InvalidInput,
                    $crate::ErrorKind::Connect => $kind::Connect,
                    $crate::ErrorKind::Tls => $kind::Tls,
                    $crate::ErrorKind::Timeout(which) => $kind::Timeout(which),
                }
            }
        }

        /// Serializes as a map of the kind, the fate and the message. Errors cannot be deserialized, since their causes
        /// are values of this process.
        #[cfg(feature = "serde")]
        impl serde::Serialize for $error {
            fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                use serde::ser::SerializeStruct;
                let mut map = serializer.serialize_struct("Error", 3)?;
                map.serialize_field("kind", &self.kind())?;
                map.serialize_field("fate", &self.fate())?;
                map.serialize_field("message", &self.to_string())?;
                map.end()
            }
        }

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::error::Error for $error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                std::error::Error::source(&self.0)
            }
        }

        /// Converts an error of connecting, of parsing an address, or of a deadline. Nothing was sent.
        impl From<$crate::Error> for $error {
            fn from(error: $crate::Error) -> Self {
                $error($crate::Error::of(error))
            }
        }

        impl From<std::convert::Infallible> for $error {
            fn from(never: std::convert::Infallible) -> Self {
                match never {}
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cause with its own cause.
    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outer")
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    fn chain(error: &dyn StdError) -> Vec<String> {
        iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
    }

    #[test]
    fn prints_every_cause_once_and_finds_the_system_error() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let kind = |error: &Error| error.io_error().map(io::Error::kind);

        let plain = Error::cannot_connect("h:1", refused());
        assert_eq!(chain(&plain), ["cannot connect to h:1: connection refused"]);
        assert_eq!(kind(&plain), Some(io::ErrorKind::ConnectionRefused));

        let deep = Error::invalid("no").with_source(Outer(refused()));
        assert_eq!(chain(&deep), ["no: outer", "connection refused"]);
        assert_eq!(kind(&deep), Some(io::ErrorKind::ConnectionRefused));

        let late = Error::timed_out(Deadline::Total).with_cause(plain);
        let expected =
            "not done within the total timeout: cannot connect to h:1: connection refused";
        assert_eq!(chain(&late), [expected]);
        assert_eq!(kind(&late), Some(io::ErrorKind::ConnectionRefused));

        let late = Error::timed_out(Deadline::Total).with_source(refused());
        let late = late.with_cause(Error::invalid("no"));
        assert_eq!(kind(&late), Some(io::ErrorKind::ConnectionRefused), "it has no other");

        assert_eq!(kind(&Error::invalid("no").with_detail("why")), None);
    }

    #[derive(Clone, Default)]
    struct Asked(Option<&'static str>);

    impl About for Asked {
        fn subject(&self) -> Option<&str> {
            self.0
        }
    }

    #[test]
    fn an_error_names_its_server_once_and_its_time() {
        let error = |time| {
            let late = Error::timed_out_after(Deadline::Reply, Duration::from_millis(time));
            Error::<ErrorKind, Asked>::of(late).with_server("h:1").with_server("other:2")
        };
        let expected = "h:1: no reply within the reply timeout of 10 s";
        assert_eq!(
            (error(10_000).to_string().as_str(), error(1).server()),
            (expected, Some("h:1"))
        );
        let mut put = error(250);
        put.about_mut().0 = Some("put");
        let expected = "put to h:1: no reply within the reply timeout of 250 ms";
        assert_eq!((put.to_string().as_str(), put.share().server()), (expected, Some("h:1")));
        assert!(!put.with_fate(Fate::Refused).to_string().contains("h:1"));
        let named = Error::cannot_connect("h:1", io::ErrorKind::ConnectionRefused.into());
        let expected = "cannot connect to h:1: connection refused";
        assert_eq!(named.with_server("h:1").to_string(), expected);
        assert!(error(1500).to_string().ends_with("of 1.5 s"));
    }

    #[test]
    fn a_shared_error_keeps_its_cause_and_forgets_the_call() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let mut error: Error<ErrorKind, Asked> = Error::of(Error::cannot_connect("h:1", denied));
        error.about_mut().0 = Some("put");
        assert_eq!(error.to_string(), "put: cannot connect to h:1: permission denied");
        let shared = error.share();
        assert_eq!(shared.to_string(), "cannot connect to h:1: permission denied");
        assert_eq!(shared.io_error().unwrap().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.clone().to_string(), error.to_string());
    }
}
