//! What the producers of both faces have in common.

/// The copies of a producer with another policy.
macro_rules! producer {
    () => {
        impl Producer {
            /// A handle to this producer whose puts use another [`Delivery`].
            #[must_use]
            pub fn delivery(&self, delivery: Delivery) -> Self {
                let policy = Policy { delivery, ..self.policy };
                Producer { handle: self.handle.clone(), policy }
            }

            /// A handle to this producer whose puts use another timeout.
            #[must_use]
            pub fn timeout(&self, timeout: Duration) -> Self {
                let policy = Policy { timeout, ..self.policy };
                Producer { handle: self.handle.clone(), policy }
            }

            /// A handle to this producer whose puts carry a key, by which
            /// [`Selection::ByKey`](crate::Selection::ByKey) selects the server.
            #[must_use]
            pub fn key(&self, key: impl AsRef<[u8]>) -> Self {
                let policy = Policy {
                    key: Some($crate::protocol::producer::stable_hash(key.as_ref())),
                    ..self.policy
                };
                Producer { handle: self.handle.clone(), policy }
            }
        }

        impl std::fmt::Debug for Producer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let report = self.report();
                f.debug_struct("Producer")
                    .field("servers", &report.servers)
                    .field("queued_jobs", &report.queued_jobs)
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use producer;
