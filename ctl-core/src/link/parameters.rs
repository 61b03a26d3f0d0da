//! The parameters behind an address, in addresses that other programs use as well.

use percent_encoding::percent_decode_str;

use crate::error::CliError;
use crate::text::escape;

/// The parameters of an address: `?KEY=VALUE&KEY=VALUE`.
#[derive(Debug, Clone, Copy)]
pub struct Parameters {
    /// Those that name the queue of commands without a name.
    pub queue: &'static [&'static str],
    /// Those that mean something to other programs only.
    pub ignored: &'static [&'static str],
}

impl Parameters {
    /// None at all.
    pub const NONE: Self = Self { queue: &[], ignored: &[] };

    /// Comma-separated addresses without parameters, and the queue that they name.
    ///
    /// # Errors
    /// An unknown parameter, or two queues: exit 2.
    pub fn split(self, text: &str) -> Result<(String, Option<String>), CliError> {
        let mut queue = None;
        let mut apart = |address: &str| {
            let is_url = address.contains("://") && !address.trim_start().starts_with("unix:");
            let Some((address, query)) = address.split_once('?').filter(|_| is_url) else {
                return Ok(address.to_owned());
            };
            for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                if self.queue.contains(&key) {
                    let name = percent_decode_str(value).decode_utf8_lossy().into_owned();
                    if queue.replace(name.clone()).is_some_and(|other| other != name) {
                        return Err(CliError::usage("the addresses name two queues"));
                    }
                } else if !self.ignored.contains(&key) {
                    let why = format!("unknown parameter `{}` of an address", escape::line(key));
                    let known = self.queue.iter().map(|known| format!("?{known}=NAME"));
                    return Err(known.fold(CliError::usage(why), CliError::hint));
                }
            }
            Ok(address.to_owned())
        };
        let addresses = text.split(',').map(&mut apart).collect::<Result<Vec<_>, _>>()?;
        Ok((addresses.join(","), queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_the_queue() {
        let known = Parameters { queue: &["tube_name", "tube"], ignored: &["ttr"] };
        let split = |text| known.split(text).map_err(|error| error.message);
        for (text, address, queue) in [
            ("h:1", "h:1", None),
            ("q://h:1?ttr=90&tube_name=a%2Bb&", "q://h:1", Some("a+b")),
            ("q://h:1/?tube=a,q://i?tube=a,j", "q://h:1/,q://i,j", Some("a")),
            ("unix:/a?tube=b,unix:///a?tube=b", "unix:/a?tube=b,unix:///a?tube=b", None),
        ] {
            assert_eq!(split(text), Ok((address.to_owned(), queue.map(str::to_owned))), "{text}");
        }
        let unknown = split("q://h?x=y&tube=a").unwrap_err();
        assert_eq!(unknown, "unknown parameter `x` of an address");
        assert_eq!(
            split("q://h?tube=a,q://i?tube=b").unwrap_err(),
            "the addresses name two queues"
        );
        assert!(Parameters::NONE.split("q://h?tube=a").is_err());
    }
}
