//! The actions of the server.

use std::fmt;

macro_rules! actions {
    ($($(#[$doc:meta])+ $action:ident = $code:literal $name:literal,)+) => {
        /// The actions of the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])+ $action = $code,)+
        }

        impl Action {
            /// All actions, in the order of their codes.
            pub const ALL: [Action; [$($code),+].len()] = [$(Action::$action),+];

            /// The name in JSON and in HTTP paths.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Action::$action => $name,)+
                }
            }

            /// The action with this code.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Action::$action),)+
                    _ => None,
                }
            }

            /// The action with this name, which is case-sensitive.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Action::$action),)+
                    _ => None,
                }
            }
        }
    };
}

actions! {
    /// Adds a message at the left end, where it is pulled next.
    Lpush = 1 "lpush",
    /// Adds a message at the right end.
    Rpush = 2 "rpush",
    /// Deletes a pulled message.
    Delete = 3 "delete",
    /// Takes the leftmost message, waiting for one without limit.
    Pull = 4 "pull",
    /// Removes all ready messages. Pulled messages stay with their consumers.
    Clear = 5 "clear",
    /// Counts the ready messages.
    Count = 6 "count",
    /// Returns a pulled message to the left end. Does not wake waiting pulls.
    Lcancel = 7 "lcancel",
    /// Returns a pulled message to the right end. Does not wake waiting pulls.
    Rcancel = 8 "rcancel",
    /// Creates a queue; refused when it exists.
    CreateQueue = 9 "createqueue",
    /// Deletes a queue and its ready messages. Pulls that wait on it are never answered.
    DeleteQueue = 10 "deletequeue",
}

impl Action {
    /// The code in binary frames.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether its requests have a body.
    #[must_use]
    pub const fn is_push(self) -> bool {
        matches!(self, Action::Lpush | Action::Rpush)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (action, code) in Action::ALL.into_iter().zip(1..) {
            assert_eq!((action.code(), Action::from_code(code)), (code, Some(action)));
            assert_eq!(Action::from_name(action.name()), Some(action));
        }
        for unknown in [0, 11, 12, 13, 14, 255] {
            assert_eq!(Action::from_code(unknown), None);
        }
        assert_eq!((Action::from_name("COUNT"), Action::from_name("")), (None, None));
    }
}
