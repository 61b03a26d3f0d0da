//! Reports of workers.

/// A report of a worker: counters, and how those of its connections are added up.
#[doc(hidden)]
#[macro_export]
macro_rules! worker_report {
    ($(#[$attribute:meta])* pub struct $report:ident { $($(#[$doc:meta])* pub $counter:ident: u64,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct $report {
            $($(#[$doc])* pub $counter: u64,)+
        }

        impl $report {
            /// Adds the counters of another connection.
            pub(crate) fn add(&mut self, other: Self) {
                $(self.$counter += other.$counter;)+
            }
        }
    };
}
