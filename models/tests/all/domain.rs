//! Data read into a declared domain: no row can fail, no row enters another one's image, and what is planned from is the
//! domain's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::{Columns, Dataset, Domain, DomainSource, Features, Label, Relation};
use rounds_kernels::features::Targets;
use rounds_models::data::schema::{parse, write};
use rounds_models::data::{
    Declaration, Explained, NAMES, Request, SchemaError, TrainTest, built_in, declare, draft, drafted, load,
    load_declared, part,
};

use crate::declared::{flags, rows};
use crate::files::{Folder, idx, npy, write_mnist};

const TABLE: &str = r#"
[rows]
drop = ["id"]
[columns.age]
kind = "number"
bounds = [0, 120]
missing = 30
[columns.height]
kind = "number"
bounds = [1e-3, 3]
[columns.job]
kind = "category"
values = ["a", "b", 3]
other = "b"
[columns.town]
kind = "category"
values = ["x", "y"]
[label]
column = "y"
classes = ["no", "yes"]
"#;

fn matrix(storage: &str, bounds: &str, label: &str) -> Arc<Domain> {
    let text = format!("[rows]\nstorage = \"{storage}\"\n[columns]\ncount = 5\nbounds = {bounds}\n[label]\n{label}\n");
    Arc::new(parse("schema.toml", &text).unwrap())
}

/// The training rows of a file in `domain`.
fn encoded(folder: &Folder, name: &str, text: impl AsRef<[u8]>, domain: &Arc<Domain>) -> Result<Dataset, Explained> {
    let path = folder.write(name, text);
    load_declared(path.to_str().unwrap(), None, Some(domain)).map(|data| data.train)
}

/// What runs are planned from.
fn facts(data: &Dataset) -> (usize, usize, Option<usize>, &'static str) {
    (data.len(), data.columns(), data.classes(), data.features().format())
}

/// Replaces `row` of `texts` by `other` and checks that its image alone changes, then that nulling it does the same.
fn check_neighbours(
    load: impl Fn(&[String]) -> Dataset,
    (mut texts, row, other): (Vec<String>, prop::sample::Index, String),
    domain: &Arc<Domain>,
) -> Result<(), TestCaseError> {
    let row = row.index(texts.len());
    let before = load(&texts);
    texts[row] = other;
    let after = load(&texts);
    prop_assert_eq!(facts(&before), facts(&after));
    prop_assert_eq!((before.len(), before.columns()), (texts.len(), domain.features()));
    prop_assert_eq!(before.classes(), domain.classes());
    prop_assert_eq!(before.domain(), Some(domain));
    let null = before.clone().null_row(row);
    prop_assert_eq!(facts(&null), facts(&before));
    let [before, after, null] = [&before, &after, &null].map(rows);
    for place in (0..texts.len()).filter(|&place| place != row) {
        prop_assert_eq!(&before[place], &after[place]);
        prop_assert_eq!(&before[place], &null[place]);
    }
    prop_assert!(null[row].0.iter().all(|&bits| bits == 0));
    for (features, target) in before.iter().chain(&after) {
        prop_assert!(features.iter().all(|&bits| f32::from_bits(bits).abs() <= 1.0));
        let is_null = *target == u32::MAX || (domain.classes().is_none() && f32::from_bits(*target).is_nan());
        prop_assert!(!is_null || features.iter().all(|&bits| bits == 0));
    }
    Ok(())
}

fn number() -> impl Strategy<Value = String> {
    let words = [
        "0", "-0", "1", "1e30", "-1e30", "1e-30", "1e300", "-1e300", "1e-300", "1e999", "nan", "NaN", "-nan", "inf",
        "-inf", "Infinity",
    ];
    prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        (-2.0..200.0f64).prop_map(|value| value.to_string()),
    ]
}

fn field() -> impl Strategy<Value = String> {
    let words = ["", " ", "a", "b", "x", "y", "3", "3.0", "no", "yes", "maybe", "\"a,b\"", "\"\"\"\"", "é", "null-row"];
    prop_oneof![prop::sample::select(words.to_vec()).prop_map(str::to_owned), number()]
}

fn csv_row(fields: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(field(), fields).prop_map(|fields| fields.join(","))
}

fn libsvm_row() -> impl Strategy<Value = String> {
    let index = prop_oneof![3 => 1..8u64, 1 => prop::sample::select(vec![1 << 32, 1 << 40, (1 << 40) + 1, u64::MAX])];
    let label =
        prop_oneof![number(), prop::sample::select(vec!["-1", "+1", "2", "yes", "1,2", "?"]).prop_map(str::to_owned)];
    (label, prop::collection::btree_map(index, number(), 0..6)).prop_map(|(label, pairs)| {
        let pairs = pairs.iter().map(|(index, value)| format!(" {index}:{value}"));
        std::iter::once(label).chain(pairs).collect()
    })
}

fn neighbours<S: Strategy<Value = String>>(
    row: impl Fn() -> S,
) -> impl Strategy<Value = (Vec<String>, prop::sample::Index, String)> {
    (prop::collection::vec(row(), 1..6), any::<prop::sample::Index>(), row())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_row_of_a_table_fails_or_enters_another_ones_image(pair in neighbours(|| csv_row(6))) {
        let (folder, domain) = (Folder::new(), Arc::new(parse("schema.toml", TABLE).unwrap()));
        let load = |texts: &[String]| {
            encoded(&folder, "t.csv", format!("id,town,age,y,job,height\n{}\n", texts.join("\n")), &domain).unwrap()
        };
        check_neighbours(load, pair, &domain)?;
    }

    #[test]
    fn no_row_of_a_table_without_header_fails_or_enters_another_ones_image(
        pair in neighbours(|| csv_row(6)),
        number_label in any::<bool>(),
        storage in prop::sample::select(vec!["dense", "sparse"]),
    ) {
        let label = if number_label { "bounds = [-5, 5]" } else { "classes = [\"no\", \"yes\", \"1\"]" };
        let (folder, domain) = (Folder::new(), matrix(storage, "[-3, 100]", label));
        let load = |texts: &[String]| encoded(&folder, "t.csv", format!("{}\n", texts.join("\n")), &domain).unwrap();
        check_neighbours(load, pair, &domain)?;
    }

    #[test]
    fn no_row_of_libsvm_text_fails_or_enters_another_ones_image(
        pair in neighbours(libsvm_row),
        number_label in any::<bool>(),
        (storage, bounds) in prop::sample::select(vec![
            ("dense", "[-1, 1]"), ("dense", "[2, 9]"), ("sparse", "[0, 1]"), ("sparse", "[-7, 3]"), ("bytes", "[0, 255]"),
        ]),
    ) {
        let label = if number_label { "bounds = [-5, 5]" } else { "classes = [-1, 1]" };
        let (folder, domain) = (Folder::new(), matrix(storage, bounds, label));
        let load = |texts: &[String]| encoded(&folder, "t", format!("{}\n", texts.join("\n")), &domain).unwrap();
        check_neighbours(load, pair, &domain)?;
    }
}

#[test]
fn syntax_errors_are_errors_about_the_file() {
    let folder = Folder::new();
    let refused = |name: &str, text: &[u8], domain| encoded(&folder, name, text, domain).unwrap_err();
    let table = Arc::new(parse("schema.toml", TABLE).unwrap());
    let header = "id,town,age,y,job,height\n";
    for (row, part) in [
        ("1,x,2,no,a", "6 fields"),
        ("1,x,2,no,a,1,1", "6 fields"),
        ("\"1,x,2,no,a,1", "closing quote"),
        ("\"1\"2,x,2,no,a,1", "separator after the closing quote"),
    ] {
        let error = refused("t.csv", format!("{header}1,x,2,no,a,1\n{row}\n").as_bytes(), &table);
        let message = error.to_string();
        assert!(message.contains(part) && message.contains("line 3"), "{message}");
        // The folder's name is random.
        let private = error.withheld().to_string().replace(folder.name(), "");
        assert!(!private.contains('3'), "{private}");
    }
    for (header, parts) in [
        ("id,town,age,y,job", "lacks columns of its domain: height|t.csv"),
        ("id,town,age,y,job,height,more,less", "columns that its domain does not know: more, less"),
        ("id,town,age,y,job,height,age", "two columns are called age: rename one"),
    ] {
        let error = refused("t.csv", format!("{header}\n").as_bytes(), &table).to_string();
        assert!(parts.split('|').all(|part| error.contains(part)), "{error}");
    }
    let columns = matrix("sparse", "[0, 1]", "classes = [-1, 1]");
    for text in ["1 1", "1 x:1", "1 1:", "1 1:x", "1 2:1 1:1", "1 1:1 1:1", "1 0:1", "1:1 2:1"] {
        refused("t", format!("1 2:1\n{text}\n").as_bytes(), &columns);
    }
    let error = refused("t", b"1 2:1\n", &table).to_string();
    assert!(error.contains("6 fields") || error.contains("two fields"), "{error}");
    let error = refused("t.npy", &npy("<f4", false, "1, 4", &[0; 16]), &columns).to_string();
    assert!(error.contains("it has 3 columns, but its domain has 5"), "{error}");
}

#[test]
fn arrays_and_images_are_encoded_whatever_they_hold() {
    let folder = Folder::new();
    let values = [f64::NAN, 1e300, 1.0, -1e300, 2.0, f64::NAN, 2.0, 4.0, -1.0];
    let array = npy("<f8", false, "3, 3", &values.map(f64::to_le_bytes).concat());
    let text = "[columns]\ncount = 2\nbounds = [-4, 4]\n[label]\nclasses = [-1, 1]\n";
    let data = encoded(&folder, "t.npy", array, &Arc::new(parse("s", text).unwrap())).unwrap();
    assert_eq!(data.features(), &Features::f32(vec![0.0, 1.0, 0.0, 0.0, 0.5, 1.0], 2));
    assert_eq!([0, 1, 2].map(|row| data.is_null(row)), [false, true, false]);

    let images = [idx(8, &[3, 1, 2], &[0, 255, 9, 9, 51, 0]), idx(8, &[1, 1, 2], &[1, 2])];
    let [train, test] = images;
    write_mnist(folder.path(), [train, idx(8, &[3], &[0, 77, 2]), test, idx(8, &[1], &[1])]);
    let text = "[rows]\nstorage = \"bytes\"\n[columns]\ncount = 2\nbounds = [0, 255]\n[label]\nclasses = [0, 1, 2]\n";
    let domain = Arc::new(parse("s", text).unwrap());
    let path = folder.name();
    let TrainTest { train, test } = load_declared(path, None, Some(&domain)).unwrap();
    assert_eq!(train.features(), &Features::bytes(&[0, 255, 0, 0, 51, 0], 2, 1.0 / 255.0));
    assert!(train.is_null(1) && test.unwrap().classes() == Some(3));
    for ranks in [1, 2, 3] {
        for rank in 0..ranks {
            let part = part::load(path, None, Request::of(Some(&domain)), rank, ranks).unwrap();
            assert_eq!(part.train, train.select(3 * rank / ranks..3 * (rank + 1) / ranks));
        }
    }
}

#[test]
fn a_schema_that_is_written_is_read_again() {
    let texts = [
        TABLE.to_owned(),
        TABLE.replace("[rows]", "drafted = true\n[rows]\nrelation = \"add-remove\"\npublic-rows = 7"),
        TABLE.replace("classes = [\"no\", \"yes\"]", "bounds = [-0.5, 1e300]\n[test]\npublic = true"),
        // Negative zeros, and a category with a value of the policy's name.
        TABLE.replace("bounds = [0, 100]", "bounds = [-0.0, 100]\nmissing = -0.0"),
        "[columns.job]\nkind = \"category\"\nvalues = [\"a\", \"null-row\"]\n[label]\ncolumn = \"y\"\nclasses = [0, 1]\n".into(),
        "[rows]\nrelation = \"replace-one\"\nstorage = \"sparse\"\n[columns]\ncount = 9\nbounds = [-1, 1]\n[label]\nclasses = [\"a \\\"b\", 'c\\d']".into(),
    ];
    for text in texts {
        let domain = parse("s", &text).unwrap();
        let again = parse("s", &write(&domain, &BTreeMap::new())).unwrap();
        assert_eq!(again, domain);
        assert_eq!(again.digest(), domain.digest());
    }
    let domain = parse("s", TABLE).unwrap();
    let Columns::Named(columns) = &domain.columns else { panic!("names") };
    // In the order of the schema.
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!((names, domain.features()), (vec!["age", "height", "job", "town"], 7));
}

const MATRIX: &str = "[columns]\ncount = 2\nbounds = [0, 1]\n[label]\nclasses = [0, 1]\n";

/// Changes of [`MATRIX`] and of [`TABLE`] that make no domain, `from -> to => parts of the message`.
const MATRIX_REFUSED: &str = r#"
classes = [0, 1] -> column = "y" => label|classes|bounds
bounds = [0, 1] -> bounds = [1, 0] => columns: bounds [1, 0]|lower one first
bounds = [0, 1] -> bounds = [0, inf] => columns: bounds [0, inf]
count -> size => columns|size|count
classes = [0, 1] -> classes = [0] => classes|at least two
classes = [0, 1] -> classes = [0, 0] => "0" twice
[columns] -> [rows]; relation = "none"; [columns] => line 2|none|zero-out
[columns] -> [rows]; relation = "add-remove"; [columns] => add-remove|public-rows = N
[columns] -> [rows]; public-rows = 5; [columns] => public-rows|add-remove alone
[columns] -> [rows]; relation = "add-remove"; public-rows = 0; [columns] => public-rows|at least 1
[columns] -> [rows]; storage = "thin"; [columns] => line 2|thin|'dense', 'bytes', 'sparse'
[columns] -> [rows]; storage = "bytes"; [columns] => storage|[0, 255]"#;
const TABLE_REFUSED: &str = r#"
other = "b" -> other = "z" => columns.job|"z"|null-row|a, b, 3
[0, 120] -> [120, 0] => columns.age|lower one first
missing = 30 -> mising = 30 => columns.age|mising|missing
kind = "number" -> kind = "integer" => columns.|integer|number
column = "y" ->  => label|column = "NAME"
column = "y" -> column = "age" => label|also a feature column"#;

#[test]
fn a_schema_that_declares_no_domain_names_the_key_and_the_way_out() {
    let check = |text: &str, parts: &str| {
        let message = parse("s", text).expect_err(text).to_string();
        for part in parts.split('|') {
            assert!(message.contains(part), "{part:?} in {message:?} of {text}");
        }
        assert!(!message.contains('\n'), "{message}");
    };
    for (schema, changes) in [(MATRIX, MATRIX_REFUSED), (TABLE, TABLE_REFUSED)] {
        for line in changes.lines().skip(1) {
            let (change, parts) = line.split_once(" => ").unwrap();
            let (from, to) = change.split_once(" -> ").unwrap();
            assert!(schema.contains(from), "{from}");
            check(&schema.replace(from, &to.replace("; ", "\n")), parts);
        }
    }
    check("x = [", "s, line 1");
    check("other = 1", "line 1|other|drafted");
    check("[label]\nclasses = [0, 1]", "no columns|[columns.NAME]");
    check("[columns]\ncount = 2\nbounds = [0, 1]", "no label|[label]");
}

#[test]
fn a_domain_comes_from_a_schema_a_name_or_flags() {
    let folder = Folder::new();
    let file = folder.write("t.csv", "id,town,age,y,job,height\n");
    let name = file.to_str().unwrap();
    let of = |flags: &Declaration| declare(name, None, flags);
    let says = |flags: &Declaration, part: &str| {
        let message = of(flags).unwrap_err().to_string();
        assert!(message.contains(part), "{part:?} in {message:?}");
    };
    // Without bounds nothing is declared.
    for line in ["", "--classes no,yes", "--label y --drop id --task classification"] {
        assert!(of(&flags(line)).unwrap().is_none(), "{line}");
    }

    // Flags alone: bounds, label and classes.
    for (line, part) in [
        ("--bounds 1,0", "lower one first"),
        ("--bounds one", "LO,HI for all columns"),
        ("--bounds 0,1 --label y", "`classes a,b`"),
        ("--bounds age=0:1 --label y --classes no,yes", "id, town, job"),
        ("--bounds id=0:9,town=0:9,age=0:9,job=0:9,height=0:9,y=0:1 --label y --classes no,yes", "leave one out"),
        // Names are taken from a first line that holds the label's, which no row is known to do.
        ("--bounds 0,1 --classes no,yes", "`label NAME`"),
    ] {
        says(&flags(line), part);
    }
    let shape = |line: &str| {
        let domain = of(&flags(line)).unwrap().unwrap();
        (domain.features(), domain.label_column.clone())
    };
    let all = "--bounds 0,1 --classes no,yes --label y";
    assert_eq!(shape(all), (5, Some("y".to_owned())));
    assert_eq!(shape("--bounds 0,1 --classes no,yes --dimension 9"), (9, None));

    // The schema beside the data, and one that is named.
    folder.write("schema.toml", TABLE);
    let beside = of(&flags("")).unwrap().unwrap();
    assert!(matches!(&beside.source, DomainSource::Schema(path) if path.ends_with("schema.toml")));
    let other = folder.write("other.toml", TABLE.replace("[0, 120]", "[0, 99]"));
    let named = flags(&format!("--schema {}", other.display()));
    assert_ne!(of(&named).unwrap(), Some(Arc::clone(&beside)));
    let of_folder = declare(folder.name(), None, &flags(""));
    assert_eq!(of_folder.unwrap(), Some(beside));
    says(&flags("--schema none.toml"), "none.toml: cannot be read");

    // Flags override.
    let add_remove = |line: &str| Declaration { relation: Some(Adjacency::AddRemove), ..flags(line) };
    for (flags, part) in [
        (flags("--dimension 3"), "`dimension`"),
        (flags("--bounds job=0:1"), "\"job\""),
        (flags("--bounds y=0:1 --classes no,yes"), "leave one out"),
        (add_remove(""), "`public-rows N`"),
        (flags("--public-rows 3"), "choose add-remove"),
        (flags("--label age"), "also a feature column"),
    ] {
        says(&flags, part);
    }
    let changed = of(&add_remove("--bounds y=0:1,age=0:9 --public-rows 3")).unwrap().unwrap();
    assert_eq!(changed.relation, Relation::AddRemove { public_rows: 3 });
    assert!(matches!(changed.label, Label::Number(_)));

    // Named data sets.
    let logistic = declare("synthetic-logistic", None, &add_remove("--public-rows 9"));
    let logistic = logistic.unwrap().unwrap();
    let data = load_declared("synthetic-logistic", None, Some(&logistic)).unwrap().train;
    assert_eq!(data.domain(), Some(&logistic));
    let refused = declare("quadratic", None, &flags(all)).unwrap_err();
    assert!(refused.to_string().contains("generated"));
}

/// The features of a domain are those of the files, but for rounding to multiples of the domain's step; bytes stay.
fn lies_near(data: &Dataset, raw: &Dataset) -> bool {
    let step = data.feature_grid().expect("a declared domain").step;
    let near = |values: &[f32], raw: &[f32]| {
        let mut pairs = values.iter().zip(raw);
        values.len() == raw.len() && pairs.all(|(a, b)| (a - b).abs() <= step && (a / step).fract() == 0.0)
    };
    match (data.features(), raw.features()) {
        (Features::F32 { values, .. }, Features::F32 { values: raw, .. }) => near(values, raw),
        (Features::Sparse(matrix), Features::Sparse(raw)) => {
            matrix.offsets == raw.offsets && matrix.indices == raw.indices && near(&matrix.values, &raw.values)
        }
        (features, raw) => features == raw,
    }
}

fn same_targets(one: Targets<'_>, other: Targets<'_>) -> bool {
    match (one, other) {
        (Targets::Classes(one), Targets::Classes(other)) => one == other,
        (Targets::Values(one), Targets::Values(other)) => one == other,
        _ => false,
    }
}

#[test]
fn named_data_sets_come_in_their_domain_and_keep_their_values() {
    let root = std::env::var_os("ROUNDS_DATA").map(PathBuf::from);
    for named in NAMES.iter() {
        let Some(domain) = built_in(named.name, root.as_deref()) else { panic!("{} has a domain", named.name) };
        domain.check().unwrap();
        assert!(domain.test_is_public);
        let generated = ["synthetic-mnist", "synthetic-logistic", "quadratic"].contains(&named.name);
        if root.is_none() && !generated {
            continue;
        }
        let data = load(named.name, root.as_deref()).unwrap();
        let raw = load_declared(named.name, root.as_deref(), None).unwrap();
        let pairs = [Some(data.train).zip(Some(raw.train)), data.test.zip(raw.test)];
        for (data, raw) in pairs.into_iter().flatten() {
            assert_eq!(data.domain(), Some(&domain), "{}", named.name);
            assert_eq!(facts(&data), facts(&raw), "{}", named.name);
            let cut = named.name == "ijcnn1" && data.len() == 91_701;
            if named.name != "pendigits" && !cut {
                assert!(same_targets(data.targets(), raw.targets()), "{}", named.name);
                assert!(lies_near(&data, &raw), "{}", named.name);
            }
            assert!((0..data.len()).all(|row| !data.is_null(row)), "{}", named.name);
        }
    }
}

#[test]
fn a_draft_describes_the_data_and_claims_nothing() {
    let folder = Folder::new();
    let check = |name: &str, text: &str| {
        let path = folder.write(name, text);
        let text = draft::draft(&path, &Default::default()).unwrap();
        let domain = parse("s", &text).unwrap();
        assert!(domain.is_draft() && text.contains("A person checks"), "{text}");
        let data = load_declared(path.to_str().unwrap(), None, Some(&Arc::new(domain.clone()))).unwrap().train;
        assert!((0..data.len()).all(|row| !data.is_null(row)));
        (domain, text)
    };
    let row = |row: usize| format!("{row},w{row},{},{},{}\n", row % 7, ["a", "b"][row % 2], row % 3);
    let rows: String = (0..100).map(row).collect();
    let (domain, text) = check("t.csv", &format!("count,word,size,kind,Class\n{rows}"));
    assert_eq!((&domain.dropped[..], domain.features()), (&["word".to_owned()][..], 4));
    assert_eq!(domain.label, Label::Classes(["0", "1", "2"].map(str::to_owned).to_vec()));
    assert!(text.contains("identifier") && text.contains("values = [\"a\", \"b\"]"), "{text}");
    let (domain, _) = check("t.svm", "1 1:0.5 70:2\n-1 3:-1\n");
    assert!(domain.features() == 70 && domain.storage.name() == "sparse");
    check("numbers.csv", "1,2,0\n3,4,1\n");
    let says = |path: &Path, part: &str| {
        let message = draft::draft(path, &Default::default()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    let path = folder.write("bad.csv", "a,b,y\n1,2,0\n1,2\n");
    says(&path, "line 3");
    says(&path, "3 fields");
    says(Path::new("nothing.csv"), "nothing.csv");
    let twice = folder.write("twice.csv", "a,a,y\n1,2,0\n3,4,1\n");
    says(&twice, "two columns are called a: rename one");
    let classes = ["0", "1"].map(str::to_owned).to_vec();
    let mut bounded = Declaration { bounds: Some("0,1".to_owned()), classes: Some(classes), ..Declaration::default() };
    bounded.columns.label = Some("y".to_owned());
    let place = twice.to_str().unwrap();
    for error in [drafted(place, &Declaration::default()).unwrap_err(), declare(place, None, &bounded).unwrap_err()] {
        assert!(matches!(error, SchemaError::Data(_)), "{error}: no column is declared twice");
    }
}
