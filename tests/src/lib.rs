//! The programs of the README and of the guide, as tests.
// They give no warning when they are copied.
#![doc(test(attr(deny(warnings))))]

/// The programs of the README: those that need no server are run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The programs of the guide: those that need no external server are run.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../docs/guide/src/ten-minutes.md")]
    struct TenMinutes;
    #[doc = include_str!("../../docs/guide/src/faces.md")]
    struct Faces;
    #[doc = include_str!("../../docs/guide/src/fates.md")]
    struct Fates;
    #[doc = include_str!("../../docs/guide/src/never-losing-a-job.md")]
    struct NeverLosingAJob;
    #[doc = include_str!("../../docs/guide/src/many-servers.md")]
    struct ManyServers;
    #[doc = include_str!("../../docs/guide/src/tls.md")]
    struct Tls;
    #[doc = include_str!("../../docs/guide/src/testing.md")]
    struct Testing;
    #[doc = include_str!("../../docs/guide/src/integrations.md")]
    struct Integrations;
    #[doc = include_str!("../../docs/guide/src/operating.md")]
    struct Operating;
    #[doc = include_str!("../../docs/guide/src/tracing.md")]
    struct Tracing;
    #[doc = include_str!("../../docs/guide/src/cookbook.md")]
    struct Cookbook;
    #[doc = include_str!("../../docs/guide/src/migrating.md")]
    struct Migrating;
}
