//! Lists the public items of libraries, one per line, from rustdoc's JSON, and checks what the listings have to say:
//! `listings JSON-FOLDER FOLDER LIBRARY...`. Run by `.ci/public-api`.
mod enums;
mod faces;
mod names;

use std::{
    collections::{BTreeMap, HashSet},
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::Path,
};

use public_api::{Builder, PublicApi};

use crate::{faces::Comparison, names::Names};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [documented, folder, libraries @ ..] = arguments.as_slice() else {
        return Err("usage: listings JSON-FOLDER FOLDER LIBRARY...".into());
    };
    let listings = listings(Path::new(documented), libraries)?;
    let mut faces = Comparison::default();
    for (library, listing) in &listings {
        fs::write(Path::new(folder).join(library).with_extension("txt"), listing)?;
        faces.add(library, listing);
    }
    let mut complaints = faces.complaints();
    complaints.extend(enums::complaints(&listings, &fs::read_to_string("docs/stability.md")?)?);
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}

/// The listing of each library.
fn listings(
    documented: &Path,
    libraries: &[String],
) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut names = Names::default();
    let mut read = Vec::new();
    for library in libraries {
        let json = documented.join(library).with_extension("json");
        let items =
            items(&json).map_err(|error| format!("cannot read {}: {error}", json.display()))?;
        names.learn(library, &fs::read_to_string(&json)?, &items)?;
        read.push((library, items));
    }
    let mut listings = BTreeMap::new();
    for (library, items) in read {
        let mut listing = String::new();
        // The library's own traits come with the trait and with the type.
        let mut listed = HashSet::new();
        for item in items.items().map(ToString::to_string) {
            if is_implied(&item) || !listed.insert(item.clone()) {
                continue;
            }
            let _ = writeln!(listing, "{}", names.as_public(&item));
        }
        listings.insert(library.clone(), listing);
    }
    Ok(listings)
}

fn items(json: &Path) -> public_api::Result<PublicApi> {
    Builder::from_rustdoc_json(json)
        // Traits of other crates that every type has. The library's own are still listed.
        .omit_blanket_impls(true)
        // Swapping two parameters of the same type changes what a call means.
        .include_function_parameter_names(true)
        .build()
}

/// Most types are `Send`, `Sync` and `Unpin`, so only exceptions and conditions are listed. Other marker traits that
/// the compiler implements are not part of what the libraries promise.
fn is_implied(item: &str) -> bool {
    const PROMISED: [&str; 3] = ["Send", "Sync", "Unpin"];
    const OTHERS: [&str; 3] = ["Freeze", "StructuralPartialEq", "UnsafeUnpin"];
    let implementation = item.split_once(" for ").filter(|(head, _)| head.starts_with("impl"));
    let Some((head, subject)) = implementation else { return false };
    let is_any = |traits: &[&str]| {
        traits.iter().any(|name| head.ends_with(&format!("core::marker::{name}")))
    };
    let is_exception = head.contains(" !") || subject.contains(" where ");
    head.contains("core::panic::unwind_safe::")
        || is_any(&OTHERS)
        || (is_any(&PROMISED) && !is_exception)
}

#[cfg(test)]
mod tests {
    use super::is_implied;

    #[test]
    fn lists_types_that_are_not_send() {
        assert!(is_implied("impl core::marker::Send for queue::Client"));
        assert!(is_implied("impl<'a> core::marker::Sync for queue::Jobs<'a>"));
        assert!(!is_implied("impl !core::marker::Send for queue::Client"));
        assert!(!is_implied("impl<'a, T> !core::marker::Sync for queue::Jobs<'a, T>"));
        assert!(!is_implied(
            "impl<T> core::marker::Send for queue::Jobs<T> where T: core::marker::Send"
        ));
    }

    #[test]
    fn markers_without_a_promise_are_not_listed() {
        assert!(is_implied("impl core::marker::Freeze for queue::Client"));
        assert!(is_implied("impl core::panic::unwind_safe::UnwindSafe for queue::Client"));
        assert!(is_implied("impl<T> !core::panic::unwind_safe::RefUnwindSafe for queue::Jobs<T>"));
        assert!(is_implied("impl core::marker::StructuralPartialEq for queue::Fate"));
    }

    #[test]
    fn other_items_are_listed() {
        assert!(!is_implied("impl core::marker::Copy for queue::Fate"));
        assert!(!is_implied("impl core::fmt::Display for queue::Fate"));
        assert!(!is_implied(
            "pub fn queue::spawn(task: impl for<'a> Fn(&'a str) + core::marker::Send)"
        ));
        assert!(!is_implied("pub struct queue::Client"));
    }
}
