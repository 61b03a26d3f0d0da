use super::*;

struct Job {
    pri: u64,
    age: u64,
    body: &'static [u8],
    class: Option<&'static str>,
}

impl Fields for Job {
    const NOUN: &'static str = "job";
    const FIELDS: &'static [Field] = &[
        Field::new("pri", Kind::Whole),
        Field::new("age", Kind::Time),
        Field::new("state", Kind::Word(&["ready", "buried"])),
        Field::new("tube", Kind::Text),
        Field::new("size", Kind::Size).of_body(),
        Field::new("body", Kind::Text).of_body(),
        Field::new("envelope", Kind::Free).of_body().open(),
    ];

    fn value(&self, field: &str, beneath: &[String]) -> Option<Value<'_>> {
        Some(match (field, beneath) {
            ("pri", _) => Value::Whole(self.pri),
            ("age", _) => Value::seconds(self.age),
            ("state", _) => Value::text("buried"),
            ("tube", _) => Value::text("a b"),
            ("size", _) => Value::size(self.body),
            ("body", _) => Value::text(self.body),
            ("envelope", [one]) if one == "class" => Value::text(self.class?),
            ("envelope", [one]) if one == "a.b" => Value::text("10"),
            _ => return None,
        })
    }
}

const JOB: Job =
    Job { pri: 1024, age: 3600, body: b"x\xffSendMail(7)\n", class: Some("App\\Jobs\\SendMail") };

fn fits(text: &str) -> bool {
    Filter::parse::<Job>(text).unwrap().fits(&JOB)
}

fn refusal(text: &str) -> CliError {
    Filter::parse::<Job>(text).unwrap_err()
}

#[test]
fn every_operator_compares_by_the_kind_of_the_field() {
    for (filter, expected) in [
        ("pri==1024", true),
        ("pri = 1024", true),
        ("pri!=1024", false),
        ("pri<1024", false),
        ("pri<=1024", true),
        ("pri>1023", true),
        ("pri>=1025", false),
        ("age>1h", false),
        ("age>=1h", true),
        ("age<1h1s", true),
        ("age==3600", true),
        ("age>500ms", true),
        ("size>13", true),
        ("size<1k", true),
        ("size==14", true),
        ("state==buried", true),
        ("state!=ready", true),
        ("state~=^b", true),
        ("tube==a b", true),
        ("tube==\"a\\u0020b\"", true),
        ("tube!=\"a b \"", true),
        ("body~=SendMail", true),
        ("body =~ Mail\\(\\d+\\)", true),
        ("body!~SendMail", false),
        ("body!~=Nothing", true),
        ("body~=(?i)sendmail", true),
        ("body~=\\xff", true),
        ("body~=a=b|<x>|S", true),
        ("envelope.class~=SendMail$", true),
        ("envelope.a\\.b<9", false),
        ("envelope.a\\.b>9", true),
        ("envelope.a\\.b==10.0", true),
        ("envelope.a\\.b==\"10.0\"", false),
        ("envelope.class>App", true),
    ] {
        assert_eq!(fits(filter), expected, "{filter}");
    }
}

#[test]
fn a_missing_value_equals_nothing() {
    for (filter, expected) in [
        ("envelope.gone==1", false),
        ("envelope.gone<1", false),
        ("envelope.gone!=1", true),
        ("envelope.gone~=.", false),
        ("envelope.gone!~.", true),
    ] {
        assert_eq!(fits(filter), expected, "{filter}");
    }
    let plain = Job { class: None, ..JOB };
    assert!(!Filter::parse::<Job>("envelope.class==x").unwrap().fits(&plain));
}

#[test]
fn all_filters_must_match_and_tell_if_they_need_the_body() {
    let read = |texts: &[&str]| {
        let filters = texts.iter().map(ToString::to_string).collect();
        FilterArgs { filters }.read::<Job>().unwrap()
    };
    let filters = read(&["pri>5", "body~=nothing"]);
    assert!(filters.need_body() && filters.may_fit(&JOB) && !filters.fit(&JOB));
    assert_eq!(filters.to_string(), "'pri>5' and 'body~=nothing'");
    let filters = read(&["pri>5", "pri<9"]);
    assert!(!filters.need_body() && !filters.may_fit(&JOB));
    assert!(read(&[]).fit(&JOB) && read(&[]).is_empty());
}

#[test]
fn errors_name_value_rule_and_next_step() {
    for (filter, why, hint) in [
        ("pri", "KEY OP VALUE", "pri, age, state, tube, size, body, envelope.NAME"),
        ("", "KEY OP VALUE", "operators"),
        ("==3", "KEY OP VALUE", "operators"),
        ("pri==", "KEY OP VALUE", "operators"),
        ("a..b==1", "KEY OP VALUE", "operators"),
        ("a b==1", "KEY OP VALUE", "operators"),
        ("foo==1", "a job has no `foo`", "pri, age"),
        ("envelope==1", "a job has no `envelope`", "envelope.NAME"),
        ("pri==-1", "`-1` is not a non-negative whole number", ""),
        ("pri==99999999999999999999", "is not a non-negative whole number", ""),
        ("age>soon", "`soon` is not a duration", ""),
        ("size>big", "`big` is not a size", ""),
        ("pri~=1", "`pri` is a number", "== != < <= > >="),
        ("body<x", "`body` is a text", "== != ~= !~"),
        ("state==burried", "`burried` is not a valid state", "ready, buried"),
        ("tube==\"x", "is not a quoted string", "JSON"),
        ("body~=(", "open group without closing", "\\("),
        ("body~=(a{1000}){1000}", "size limit", ""),
    ] {
        let error = refusal(filter);
        assert_eq!(error.exit.code(), 2, "{filter}");
        assert!(error.message.contains(why), "{filter}: {error}");
        assert!(error.message.starts_with(&format!("the filter `{filter}` is not valid")));
        assert!(error.hints.join(" ").contains(hint), "{filter}: {:?}", error.hints);
    }
    let error = refusal("\x1b[2J==1");
    assert!(!error.message.contains('\x1b'), "{error:?}");
}

proptest::proptest! {
    #[test]
    fn any_text_parses_or_fails(text in "[a-z\\\\.=!~<>\" ]{0,12}\\PC{0,12}") {
        match Filter::parse::<Job>(&text) {
            Ok(filter) => drop(filter.fits(&JOB)),
            Err(error) => proptest::prop_assert_eq!(error.exit.code(), 2),
        }
    }
}
