//! The results of handlers.

use bytes::Bytes;

use crate::Failure;

/// What a handler may return: its result as bytes or text, `()` for an empty one, or a `Result` of one of them with a
/// [`Failure`] or any error that implements `Display`, as those of anyhow do: an exception with the error's text.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return bytes, text or `()`, or a `Result` of one of them with a `Failure` or any error that implements `Display`"
)]
pub trait IntoOutcome {
    /// The result, or how the job fails.
    ///
    /// # Errors
    ///
    /// The job fails, or is given back.
    fn into_outcome(self) -> Result<Bytes, Failure>;
}

macro_rules! results {
    ($($result:ty),+) => {$(
        impl IntoOutcome for $result {
            fn into_outcome(self) -> Result<Bytes, Failure> {
                Ok(self.into())
            }
        }
    )+};
}

results!(Bytes, Vec<u8>, Box<[u8]>, &'static [u8], String, &'static str);

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Bytes, Failure> {
        Ok(Bytes::new())
    }
}

impl<T: IntoOutcome, E: Into<Failure>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<Bytes, Failure> {
        self.map_err(Into::into)?.into_outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error whose causes are in its alternate form, as anyhow's.
    struct Chain;

    impl std::fmt::Display for Chain {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(if f.alternate() { "outer: inner" } else { "outer" })
        }
    }

    #[test]
    fn handlers_may_return_a_result_or_any_error() {
        assert_eq!(().into_outcome(), Ok(Bytes::new()));
        assert_eq!("done".into_outcome(), Ok("done".into()));
        assert_eq!(Ok::<_, Chain>(vec![1, 2]).into_outcome(), Ok(Bytes::from_static(&[1, 2])));
        assert_eq!(Err::<(), _>(Failure::Fail).into_outcome(), Err(Failure::Fail));
        let boxed = Box::<dyn std::error::Error>::from("boxed");
        assert_eq!(Err::<(), _>(boxed).into_outcome(), Err(Failure::exception("boxed")));
        let chain = Err::<String, _>(Chain).into_outcome();
        assert_eq!(chain, Err(Failure::exception("outer: inner")));
    }
}
