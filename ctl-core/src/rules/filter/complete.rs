//! Completion of a filter.

use super::{Field, Kind};
use crate::rules::comparison::{Operator, SIGNS};

/// The ways to continue a filter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Goes {
    /// As it would be typed, from the beginning.
    pub(crate) on: Vec<String>,
    /// Whether it is still no whole filter then.
    pub(crate) is_open: bool,
}

/// How the typed text can continue: with the name of a field, with an operator that the field has, or with one of the
/// words that its values are.
pub(crate) fn continued(fields: &[Field], typed: &str) -> Goes {
    let sign = typed.find(|c| "=!<>~".contains(c));
    let Some((name, rest)) = sign.and_then(|at| typed.split_at_checked(at)) else {
        return Goes { on: names(fields, typed), is_open: true };
    };
    let Some(kind) = kind_of(fields, name.trim()) else {
        return Goes { on: Vec::new(), is_open: true };
    };
    let written = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
    if let (Kind::Word(words), Some((sign, Operator::Equal | Operator::Different))) =
        (kind, written)
    {
        let on = words.iter().map(|word| format!("{name}{sign}{word}"));
        let on: Vec<String> = on.filter(|whole| whole.starts_with(typed)).collect();
        if !on.is_empty() {
            return Goes { on, is_open: false };
        }
    }
    Goes { on: with_operators(name, kind, typed), is_open: true }
}

/// The fields whose names begin like this; where one is meant, with its operators.
fn names(fields: &[Field], typed: &str) -> Vec<String> {
    let names = fields.iter().flat_map(|field| match field.is_open {
        true => field.known.iter().map(|known| format!("{}.{known}", field.name)).collect(),
        false => vec![field.name.to_owned()],
    });
    let found: Vec<String> = names.filter(|name| name.starts_with(typed)).collect();
    let is_one = found.len() == 1;
    let on = found.into_iter().flat_map(|name| match kind_of(fields, &name) {
        Some(kind) if is_one || name == typed => with_operators(&name, kind, typed),
        _ => vec![name],
    });
    on.collect()
}

fn with_operators(name: &str, kind: Kind, typed: &str) -> Vec<String> {
    let whole = kind.operators().iter().map(|sign| format!("{name}{sign}"));
    whole.filter(|whole| whole != typed && whole.starts_with(typed)).collect()
}

/// The kind of the field of this name; none of the beginning of a name.
fn kind_of(fields: &[Field], name: &str) -> Option<Kind> {
    let field = fields.iter().find(|field| match name.strip_prefix(field.name) {
        Some("") => !field.is_open,
        Some(beneath) => field.is_open && beneath.starts_with('.'),
        None => false,
    });
    field.filter(|_| !name.ends_with('.')).map(|field| field.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        Field::new("pri", Kind::Whole),
        Field::new("to", Kind::Text),
        Field::new("took", Kind::Time),
        Field::new("state", Kind::Word(&["ready", "reserved", "buried"])),
        Field::new("inside", Kind::Free).open().known(&["class", "arguments."]),
    ];

    fn on(typed: &str) -> String {
        let Goes { on, is_open } = continued(FIELDS, typed);
        format!("{}{}", on.join(" "), if is_open { " .." } else { "" })
    }

    #[test]
    fn completes_operators_and_words() {
        assert_eq!(on(""), "pri to took state inside.class inside.arguments. ..");
        assert_eq!(on("p"), "pri== pri!= pri< pri<= pri> pri>= ..");
        assert_eq!(on("t"), "to took ..");
        assert_eq!(on("to"), "to== to!= to~= to!~ took ..");
        assert_eq!(on("took<"), "took<= ..");
        assert_eq!(on("state="), "state=ready state=reserved state=buried");
        assert_eq!(on("state!"), "state!= state!~ ..");
        assert_eq!(on("state!=re"), "state!=ready state!=reserved");
        assert_eq!(on("inside"), "inside.class inside.arguments. ..");
        assert_eq!(on("inside.ar"), "inside.arguments. ..");
        assert_eq!(
            on("inside.c"),
            "inside.class== inside.class!= inside.class< inside.class<= inside.class> inside.class>= inside.class~= inside.class!~ .."
        );
        assert_eq!(on("inside.arguments.x!"), "inside.arguments.x!= inside.arguments.x!~ ..");
    }

    #[test]
    fn offers_nothing_for_free_text() {
        for typed in ["x", "x==", "pri<1", "state==x", "state~=r", "inside.==", "="] {
            assert_eq!(on(typed), " ..", "{typed}");
        }
    }
}
