//! Reports to `tracing` about connections, common to all clients.

pub(crate) mod measure;
pub(crate) mod metrics;
pub(crate) mod observer;
pub(crate) mod operation;
pub(crate) mod span;

/// The functions of a client that report its connections: the attempt, its outcome, the end, and the delay before the
/// next one. Without the client's feature `tracing` they are no-ops. A macro, because a span's name and target are
/// determined by where it is written.
#[doc(hidden)]
#[macro_export]
macro_rules! trace_connections {
    (@ $level:ident, $target:ident, $system:ident, $address:ident, { $($own:tt)* }, $words:literal) => {
        tracing::$level!(
            target: $target,
            {
                messaging.system = $system,
                server.address = %$address.endpoint().host(),
                server.port = $address.endpoint().port().map(i64::from),
                $($own)*
            },
            $words
        )
    };
    ($span:literal, $target:ident, $system:ident) => {
        /// An attempt to connect.
        pub(crate) fn connecting(address: &Address) -> $crate::Span {
            #[cfg(feature = "tracing")]
            return $crate::Span::new(tracing::debug_span!(
                target: $target,
                $span,
                otel.name = %$crate::titled("connect", address.endpoint()),
                otel.kind = "client",
                otel.status_code = tracing::field::Empty,
                messaging.system = $system,
                server.address = %address.endpoint().host(),
                server.port = address.endpoint().port().map(i64::from),
                "error.type" = tracing::field::Empty,
            ));
            #[cfg(not(feature = "tracing"))]
            {
                let _ = address;
                $crate::Span::none()
            }
        }

        /// The outcome of the attempt, which has this span.
        pub(crate) fn connected(address: &Address, span: &$crate::Span, outcome: Result<(), &Error>) {
            if let Err(error) = outcome {
                span.failed(error.kind().name());
            }
            #[cfg(feature = "tracing")]
            match outcome {
                Ok(()) => {
                    $crate::trace_connections!(@ info, $target, $system, address, {}, "connected");
                }
                Err(error) => $crate::trace_connections!(
                    @ warn,
                    $target,
                    $system,
                    address,
                    { "error.type" = error.kind().name(), error = %$crate::OneLine(error) },
                    "no connection"
                ),
            }
            #[cfg(not(feature = "tracing"))]
            let _ = address;
        }

        /// The failure of a call, if it failed.
        pub(crate) fn failure<T>(outcome: &Result<T, Error>) -> Option<(&'static str, $crate::Fate)> {
            outcome.as_ref().err().map(|error| (error.kind().name(), error.fate()))
        }

        /// A connection ended by itself, or is out of step.
        pub(crate) fn connection_lost(address: &Address, error: Option<&Error>) {
            #[cfg(feature = "tracing")]
            $crate::trace_connections!(
                @ warn,
                $target,
                $system,
                address,
                { "error.type" = error.map(|error| error.kind().name()) },
                "the connection was lost"
            );
            #[cfg(not(feature = "tracing"))]
            let _ = (address, error);
        }

        /// The next attempt is delayed.
        pub(crate) fn backing_off(address: &Address, delay: std::time::Duration) {
            #[cfg(feature = "tracing")]
            $crate::trace_connections!(
                @ debug,
                $target,
                $system,
                address,
                { delay_ms = delay.as_millis() as i64 },
                "waiting before the next attempt to connect"
            );
            #[cfg(not(feature = "tracing"))]
            let _ = (address, delay);
        }
    };
}
