//! Features of rows: a run on them, its model and its statement; files of features; refusals.

use std::sync::Arc;

use rounds_algorithms::privacy::{Accountant, Adjacency, Mechanism};
use rounds_algorithms::problem::{Dataset, Domain, Features, Labels};
use rounds_kernels::features::{NULL_CLASS, Norm};
use rounds_models::data::{self, LabelUse, Request, schema};
use rounds_models::features::FeatureMap;
use rounds_models::fit::{Execution, FitError, Grid, Observer, Training, Tuning, fit, tune};
use rounds_models::model_file::Model;
use rounds_models::statement;

use crate::files::Folder;

const SCHEMA: &str =
    "[rows]\nstorage = \"bytes\"\n[columns]\ncount = 64\nbounds = [0, 255]\n[label]\nclasses = [\"0\", \"1\"]\n";
const MAP: &str = "scattering:shape=8x8,scales=2";

fn domain() -> Arc<Domain> {
    Arc::new(schema::parse("a test", SCHEMA).unwrap())
}

fn map(text: &str) -> FeatureMap {
    text.parse().unwrap()
}

/// Images of 8 × 8: bars that lie or stand, by their class, with a row of every kind of extreme.
fn images(rows: usize) -> Dataset {
    let pixel = |row: usize, place: usize| match row {
        0 => 0,
        1 => 255,
        2 => {
            if place == 27 {
                255
            } else {
                0
            }
        }
        3 => {
            if place.is_multiple_of(2) {
                255
            } else {
                0
            }
        }
        _ => {
            let at = if row.is_multiple_of(2) { place / 8 } else { place % 8 };
            ((at + row / 2) % 4 / 2 * 200 + (row * 31 + place * 17) % 56) as u8
        }
    };
    let bytes: Vec<u8> = (0..rows).flat_map(|row| (0..64).map(move |place| pixel(row, place))).collect();
    let values = (0..rows).map(|row| if row == 5 { NULL_CLASS } else { row as u32 % 2 }).collect();
    let labels = Labels::Classes { values, classes: 2, names: None };
    let dataset = Dataset::new("images", Features::bytes(&bytes, 64, 1.0 / 255.0), labels).unwrap();
    dataset.in_domain(domain()).unwrap()
}

fn values(dataset: &Dataset) -> &[f32] {
    let Features::F32 { values, .. } = dataset.features() else { panic!("features are dense") };
    values
}

#[test]
fn the_features_of_a_row_are_of_that_row_alone() {
    let all = images(61);
    for map in [map(MAP), map("fourier:count=30,bandwidth=2,seed=3")] {
        let mapper = map.on(64).unwrap();
        let together = mapper.apply(all.clone()).unwrap();
        let width = mapper.features();
        // Other neighbours, other lanes, and fewer rows than a block.
        for rows in [vec![60, 7, 5, 0, 1], (0..61).rev().collect::<Vec<_>>()] {
            let apart = mapper.apply(all.select(rows.iter().copied())).unwrap();
            for (place, row) in rows.into_iter().enumerate() {
                assert_eq!(
                    values(&apart)[place * width..][..width],
                    values(&together)[row * width..][..width],
                    "{row}"
                );
            }
        }
        assert!(values(&together)[5 * width..6 * width].iter().all(|&value| value == 0.0), "a null row has zeros");
        assert!(together.is_null(5) && !together.is_null(4));
    }
}

#[test]
fn features_keep_the_bounds_that_are_declared_of_them() {
    for map in [map(MAP), map("scattering:shape=4x16,scales=1"), map("fourier:count=30,bandwidth=0.1")] {
        let mapper = map.on(64).unwrap();
        let width = mapper.features();
        let mut raw = vec![0.0; 40 * width];
        mapper.fill(images(40).rows(), 0, &mut raw);
        assert!(raw.iter().all(|value| value.abs() <= 1.0));
        let norm = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let longest = raw.chunks(width).map(norm).fold(0.0, f64::max);
        // Groups of little variance are shorter than √m: the bound holds, and is not far away.
        let bound = mapper.norm_bound();
        assert!((0.7 * bound..bound).contains(&longest), "{longest} {bound}");
        let mapped = mapper.apply(images(40)).unwrap();
        assert_eq!(mapped.public_bound(Norm::L2), Some(mapper.norm_bound()));
        assert_eq!(mapped.domain().unwrap().features(), width);
        // Nothing was cut: features are on their grid, half a step from where they were.
        let far = |(value, raw): (&f32, &f32)| (value - raw).abs() > 0.500_01 / 16_384.0;
        let null = 5 * width..6 * width;
        let moved =
            values(&mapped).iter().zip(&raw).enumerate().filter(|(place, pair)| !null.contains(place) && far(*pair));
        assert_eq!(moved.count(), 0);
    }
}

#[test]
fn what_has_no_such_features_is_refused_by_name() {
    let refusal = |text: &str, inputs| map(text).on(inputs).err().expect("refused");
    for (text, inputs, expected) in [
        ("scattering", 100, "`features scattering:scales=2`: rows have 100 features; give the shape"),
        ("scattering:shape=9x9", 64, "images of 1 x 9 x 9 have another number of pixels"),
        (
            "scattering:shape=8x8,scales=4",
            64,
            "images of 8 x 8 pixels have no 4 scales: each has sides of at least 2^scales",
        ),
        ("fourier:count=3", 64, "an even count of at least 2 and a bandwidth from 1e-30"),
        ("fourier:bandwidth=1e-40", 64, "a bandwidth from 1e-30 to 1e30"),
        ("fourier:count=100000000000000", 64, "its directions take"),
        ("fourier:count=18446744073709551614", 64, "GiB, and this machine has "),
        ("fourier:inputs=3", 64, "rows have 64 features"),
    ] {
        let found = refusal(text, inputs);
        assert!(found.contains(expected), "{text}: {found}");
    }
    for text in ["wavelets", "scattering:angles=8", "scattering:shape=3", "fourier:count=many"] {
        assert!(text.parse::<FeatureMap>().unwrap_err().contains("scattering:shape=3x32x32"), "{text}");
    }
    // More rows than any memory holds, said before any is taken; under add/remove the public number decides, not that of rows.
    let folder_of_few = folder(40);
    let mut training = Training::on(folder_of_few.path().to_str().unwrap()).private(1.0, 1e-5);
    training.data.features = Some(map(MAP));
    training.privacy.adjacency = Some(Adjacency::AddRemove);
    training.data.declaration.public_rows = Some(1 << 50);
    let error = fit(&training, &Execution::default(), &mut ()).err().expect("refused").to_string();
    assert!(
        error.contains("1125899906842624 rows of 324 features take") && error.contains("GiB, and this machine has "),
        "{error}"
    );
    // A table has no images: of a run this is said before a row is read.
    let folder = Folder::new();
    folder.write("table.csv", "a,b,kind\n1,2,no\n".to_owned() + &"3,4,yes\n".repeat(30));
    let schema = "[columns.a]\nkind = \"number\"\nbounds = [0, 9]\n[columns.b]\nkind = \"number\"\nbounds = [0, 9]\n[label]\n\
                  column = \"kind\"\nclasses = [\"no\", \"yes\"]\n";
    folder.write("schema.toml", schema);
    let mut training = Training::on(folder.path().join("table.csv").to_str().unwrap()).private(1.0, 1e-5);
    training.data.features = Some(map("scattering"));
    let error = fit(&training, &Execution::default(), &mut ()).err().expect("refused");
    assert!(error.is_usage() && error.to_string().contains("rows have 2 features; give the shape"), "{error}");
    training.data.features = Some(map("fourier:count=10"));
    fit(&training, &Execution::default(), &mut ()).unwrap();
}

/// A folder of images and labels as arrays, made by way of features that are the pixels: bytes would be another format.
fn folder(rows: usize) -> Folder {
    let (folder, images) = (Folder::new(), images(rows));
    let (features, labels) = images.into_parts();
    let Features::U8 { rows: bytes, .. } = &features else { panic!("bytes") };
    let Labels::Classes { values, .. } = labels else { panic!("classes") };
    let array = |descr: &str, shape: String, payload: Vec<u8>| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let start = [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes()].concat();
        [start, header.into_bytes(), payload].concat()
    };
    let pixels: Vec<u8> = bytes.iter().flatten().copied().collect();
    let classes = values.iter().map(|&class| if class == NULL_CLASS { 9 } else { class as u8 }).collect();
    std::fs::write(folder.path().join("x_train.npy"), array("|u1", format!("({rows}, 8, 8)"), pixels)).unwrap();
    std::fs::write(folder.path().join("y_train.npy"), array("|u1", format!("({rows},)"), classes)).unwrap();
    folder.write("schema.toml", SCHEMA);
    folder
}

#[test]
fn a_model_applies_its_features_and_its_statement_is_verified() {
    let folder = folder(600);
    let path = folder.path().to_str().unwrap().to_owned();
    let mut training = Training::on(&path).private(4.0, 1e-5);
    training.data.features = Some(map(MAP));
    training.privacy.secure = true;
    let place = folder.path().join("model.st");
    training.model = Some(place.clone());
    let fitted = fit(&training, &Execution::default(), &mut ()).unwrap();
    let model = Model::read(&place).unwrap();
    assert_eq!((model.header().data.dimension, model.header().data.columns()), (324, 64));
    assert_eq!(model.weights(), fitted.model.weights());
    let rows = model.load(&path, None, LabelUse::Needed).unwrap();
    assert_eq!(rows.dataset.columns(), 324);
    let found = serde_json::to_value(model.evaluate(rows).unwrap()).unwrap();
    // Bars that lie and bars that stand.
    assert!(found["accuracy"].as_f64().unwrap() > 0.95, "{found}");
    let verified = statement::verify(&place, None).unwrap();
    assert!(verified.holds, "{:?}", verified.differences);
    let notes = serde_json::to_string(&verified.statement).unwrap();
    assert!(notes.contains("scattering:shape=1x8x8,scales=2"), "{notes}");
    // Other features have other bounds, and other steps follow.
    let text = serde_json::to_string(&fitted.outcome).unwrap();
    for (from, to) in
        [("scales=2", "scales=1"), ("\"dimension\":324", "\"dimension\":320"), ("shape=1x8x8", "shape=1x4x16")]
    {
        let changed = folder.path().join("changed.json");
        assert!(text.contains(from));
        std::fs::write(&changed, text.replacen(from, to, 1)).unwrap();
        assert!(statement::verify(&changed, None).is_ok_and(|found| !found.holds), "{from}");
    }
}

#[test]
fn files_of_features_are_read_as_a_run_has_them() {
    for map in [map(MAP), map("fourier:count=30,bandwidth=2")] {
        let (folder, rows) = (Folder::new(), images(70));
        let mapper = map.on(64).unwrap();
        let files = ["x_train.npy", "y_train.npy"].map(|name| folder.path().join(name));
        let mut told = 0;
        let files = files.map(|path| std::fs::File::create(path).unwrap());
        let mut tell = |rows| {
            told += rows;
            Ok(())
        };
        mapper.write(&rows, files, &mut tell).unwrap();
        let declared = mapper.domain_of_files(&domain());
        folder.write("schema.toml", schema::write(&declared, &Default::default()));
        let declared = schema::read(&folder.path().join("schema.toml")).unwrap();
        let read = data::load_requested(folder.path().to_str().unwrap(), None, Request::of(Some(&Arc::new(declared))));
        let (read, mapped) = (read.unwrap().train, mapper.apply(rows).unwrap());
        assert_eq!((told, values(&read)), (70, values(&mapped)));
        let classes = |dataset: &Dataset| match dataset.labels() {
            Labels::Classes { values, .. } => values.clone(),
            Labels::Values(_) => panic!("classes"),
        };
        assert_eq!(classes(&read), classes(&mapped));
    }
}

/// Maps that follow from moments, and their features.
const OF_MOMENTS: [(&str, usize); 4] = [
    ("whiten:power=0.5", 64),
    ("pca:count=9,norm=6", 9),
    ("normalize:share=0.1", 64),
    ("scattering:shape=8x8,scales=2+pca:count=20", 20),
];

/// A release with these features, at an ε for which 600 rows are enough.
fn of_moments(folder: &Folder, text: &str) -> Training {
    let mut training = Training::on(folder.path().to_str().unwrap()).private(50.0, 1e-5);
    training.data.features = Some(map(text));
    (training.privacy.secure, training.privacy.allow_weak_privacy) = (true, true);
    training.privacy.diagnostics = true;
    training
}

#[test]
fn a_release_pays_for_its_moments_states_them_and_its_model_keeps_what_follows() {
    let folder = folder(600);
    let path = folder.path().to_str().unwrap().to_owned();
    for (number, (text, features)) in OF_MOMENTS.into_iter().enumerate() {
        let place = folder.path().join(format!("model-{number}.st"));
        let training = Training { model: Some(place.clone()), ..of_moments(&folder, text) };
        let fitted = fit(&training, &Execution::default(), &mut ()).unwrap();
        let privacy = &fitted.outcome.header.privacy;
        // The whole is the composition of both, and no more than was asked for.
        let composed = Mechanism::Composition(privacy.mechanisms.clone());
        let found = Accountant::Pld.epsilon(&composed, Adjacency::ZeroOut, 1e-5).unwrap();
        assert_eq!((privacy.epsilon, privacy.mechanisms.len()), (Some(found), 2), "{text}");
        assert!((49.0..=50.0).contains(&found));
        let share = training.data.features.as_ref().unwrap().moments().unwrap().share;
        let mu = rounds_algorithms::privacy::gaussian::mu(50.0, 1e-5).unwrap();
        assert!((privacy.moments_noise.unwrap() * mu * share.sqrt() - 1.0).abs() < 1e-12);
        assert_eq!(privacy.mechanisms[0].noise_multiplier(), privacy.moments_noise);
        assert!(
            privacy.mechanism.as_ref().unwrap().starts_with("moments of the rows with Gaussian noise, then Poisson")
        );
        let model = Model::read(&place).unwrap();
        assert_eq!((model.header().data.dimension, model.header().data.columns()), (features, 64));
        // As a run has them, and each of its own row alone.
        let all = model.treated(images(61)).unwrap();
        for rows in [vec![60, 7, 5, 0, 1], (0..61).rev().collect::<Vec<_>>()] {
            let apart = model.treated(images(61).select(rows.iter().copied())).unwrap();
            for (place, row) in rows.into_iter().enumerate() {
                let of = |rows: &Dataset, row: usize| values(rows)[row * features..][..features].to_vec();
                assert_eq!(of(&apart, place), of(&all, row), "{text}: {row}");
            }
        }
        let bound = all.public_bound(Norm::L2).unwrap();
        let norm = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        assert!(values(&all).chunks(features).all(|row| norm(row) <= bound) && (3.0..3.1).contains(&bound), "{bound}");
        let rows = model.load(&path, None, LabelUse::Needed).unwrap();
        let found = serde_json::to_value(model.evaluate(rows).unwrap()).unwrap();
        let found = found["accuracy"].as_f64().unwrap();
        let in_run = fitted.outcome.diagnostics.as_ref().and_then(|told| told.train_accuracy).unwrap();
        // Pixels of bars in all phases do not tell their direction, and scattering does.
        let least = if text.contains("scattering") { 0.8 } else { 0.0 };
        assert!((found - in_run).abs() < 1e-12 && found > least, "{text}: {found} {in_run}");
        let verified = statement::verify(&place, None).unwrap();
        assert!(verified.holds, "{text}: {:?}", verified.differences);
        // Every place where the release is stated is compared.
        let told = serde_json::to_string(&fitted.outcome).unwrap();
        let changed = folder.path().join("changed.json");
        let noise = |of: &str| format!("\"{of}\":{}", privacy.moments_noise.unwrap());
        let forgeries = [
            (noise("moments_noise"), noise("moments_noise").replace("moments_noise\":", "moments_noise\":1")),
            (noise("noise_multiplier"), noise("noise_multiplier").replace("multiplier\":", "multiplier\":1")),
            (format!("share={share}"), "share=0.3".to_owned()),
            ("whose release is the first mechanism, ".to_owned(), String::new()),
        ];
        for (from, to) in forgeries {
            assert!(told.contains(&from), "{text}: {from}");
            std::fs::write(&changed, told.replacen(&from, &to, 1)).unwrap();
            let found = statement::verify(&changed, None);
            assert!(found.as_ref().is_ok_and(|found| !found.holds), "{text}: {from} {found:?}");
        }
        // A run that pays for its rounds alone.
        let mut forged: serde_json::Value = serde_json::from_str(&told).unwrap();
        let parameters = forged["parameters"].as_object_mut().unwrap();
        parameters.remove("epsilon").unwrap();
        parameters.insert("noise-multiplier".to_owned(), privacy.noise_multiplier.unwrap().to_string().into());
        forged["privacy"].as_object_mut().unwrap().remove("moments_noise").unwrap();
        forged["privacy"]["mechanisms"].as_array_mut().unwrap().remove(0);
        std::fs::write(&changed, forged.to_string()).unwrap();
        let error = statement::verify(&changed, None).err().unwrap().to_string();
        assert!(error.contains("its moments take a share of ε"), "{error}");
        let mut forged: serde_json::Value = serde_json::from_str(&told).unwrap();
        forged["data"]["features_sha256"] = "zz".into();
        std::fs::write(&changed, forged.to_string()).unwrap();
        let error = statement::verify(&changed, None).err().unwrap().to_string();
        assert!(error.contains("do not agree"), "{error}");
        std::fs::write(&changed, &told).unwrap();
        assert!(statement::verify(&changed, None).unwrap().holds);
        // Tensors stand in the order of their names; the features' is the first.
        let mut bytes = std::fs::read(&place).unwrap();
        let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[start] ^= 1;
        let error = Model::parse(&place, &bytes).err().unwrap().to_string();
        assert!(error.contains("the matrix of its features is not the one that was written"), "{error}");
    }
}

#[test]
fn features_of_moments_are_what_their_names_say() {
    let folder = folder(3_000);
    for (text, features) in OF_MOMENTS {
        let mut training = of_moments(&folder, text);
        training.privacy.secure = false;
        (training.privacy.epsilon, training.holds_out) = (Some(1_000.0), false);
        let model = fit(&training, &Execution::default(), &mut ()).unwrap().model;
        let mapped = model.treated(images(3_000)).unwrap();
        // Without the extremes.
        let rows: Vec<&[f32]> = values(&mapped).chunks(features).skip(6).collect();
        let mean = |of: &dyn Fn(&[f32]) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / rows.len() as f64;
        let square = mean(&|row| row.iter().map(|&value| f64::from(value).powi(2)).sum());
        assert!((square / 4.0 - 1.0).abs() < 0.2, "{text}: {square}");
        let covariance = |i: usize, j: usize| {
            let [a, b] = [i, j].map(|of| mean(&|row| f64::from(row[of])));
            mean(&|row| (f64::from(row[i]) - a) * (f64::from(row[j]) - b))
        };
        let variances: Vec<f64> = (0..features).map(|i| covariance(i, i)).collect();
        let greatest = variances.iter().copied().fold(0.0, f64::max);
        assert!((0..features).all(|i| mean(&|row| f64::from(row[i])).abs() < 0.05 * square.sqrt()), "{text}");
        match text.split_once(':').unwrap().0 {
            "normalize" => assert!(variances.iter().all(|variance| *variance > 0.9 * greatest), "{variances:?}"),
            "whiten" => assert!(covariance(0, 1).abs() < 0.5 * greatest && covariance(0, 8).abs() < 0.5 * greatest),
            _ => {
                assert!(variances.windows(2).all(|pair| pair[1] < 1.02 * pair[0] + 0.01 * square), "{variances:?}");
                assert!((0..5).all(|i| covariance(i, i + 1).abs() < 0.05 * square), "{text}");
            }
        }
    }
}

/// Stops a run after so many rounds.
struct Stopping(u64);

impl Observer for Stopping {
    fn after_round(&mut self, _: u64) {
        self.0 -= 1;
    }

    fn stops(&mut self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_run_on_moments_that_stops_goes_on_from_the_same_release() {
    let folder = folder(600);
    let mut training = of_moments(&folder, "whiten");
    let checkpoint = folder.path().join("checkpoint");
    for secure in [true, false] {
        training.privacy.secure = secure;
        (training.checkpoint.file, training.checkpoint.resume) = (None, None);
        let undisturbed = fit(&training, &Execution::default(), &mut ()).unwrap().model;
        training.checkpoint.file = Some(checkpoint.clone());
        let stopped = fit(&training, &Execution::default(), &mut Stopping(4)).err();
        match stopped {
            Some(FitError::Interrupted { .. }) if secure => {}
            Some(FitError::Stopped { round: 4, .. }) if !secure => {}
            other => panic!("{other:?}"),
        }
        training.checkpoint.resume = Some(checkpoint.clone());
        let model = fit(&training, &Execution::default(), &mut ()).unwrap().model;
        // A release has a key of its own each time.
        assert_eq!(model.weights() == undisturbed.weights(), !secure);
        let [found, other] = [&model, &undisturbed].map(|model| model.header().data.features_sha256.clone().unwrap());
        assert_eq!(found == other, !secure);
    }
}

#[test]
fn what_releases_no_moments_is_refused_by_name_with_the_way_out() {
    let refusal = |text: &str, inputs| map(text).on(inputs).err().expect("refused");
    for (text, inputs, expected) in [
        (
            "pca:count=65",
            64,
            "`features pca:count=65,share=0.2`: rows have 64 features, and so many components at most: give count=1 to",
        ),
        ("whiten", 5_000, "the second moment of more than 4096 is not released; take normalize, or fewer features"),
        ("whiten:power=0", 64, "0.25, or 0.5 for equal variances"),
        ("normalize:share=1", 64, "a share above 0 and below 1"),
        ("whiten:norm=-1", 64, "a norm above 0"),
        ("pca:inputs=3,count=2", 64, "rows have 64 features"),
    ] {
        let found = refusal(text, inputs);
        assert!(found.contains(expected), "{text}: {found}");
    }
    for text in ["whiten:count=3", "pca+scattering", "whiten+whiten", "pca:power=1", "normalize:count=1"] {
        assert!(text.parse::<FeatureMap>().unwrap_err().contains("scattering+normalize"), "{text}");
    }
    let text = "fourier:count=30,bandwidth=1e+2,seed=1+whiten";
    assert_eq!(map(text).to_string(), "fourier:count=30,bandwidth=100,seed=1+whiten:power=0.25,share=0.2");
    assert!(
        map("whiten").on(64).unwrap().apply(images(9)).is_err_and(|error| error.to_string().contains("a run releases"))
    );
    let folder = folder(40);
    let refused = |change: &dyn Fn(&mut Training), expected: &str| {
        let mut training = of_moments(&folder, "whiten");
        change(&mut training);
        let error = fit(&training, &Execution::default(), &mut ()).err().expect("refused");
        assert!(error.is_usage() && error.to_string().contains(expected), "{error}");
    };
    refused(
        &|training| (training.privacy.epsilon, training.privacy.noise_multiplier) = (None, Some(2.0)),
        "give `epsilon`",
    );
    refused(&|training| (training.algorithm, training.privacy.secure) = ("sgd".to_owned(), false), "take dp-sgd");
    refused(&|training| training.algorithm = "dp-gd".to_owned(), "this algorithm divides its budget by itself");
    refused(&|training| training.model = Some("weights.npy".into()), "name the model .safetensors");
    let mut tuning = Tuning::of(of_moments(&folder, "whiten"));
    tuning.grid = Grid::new([("learning-rate", &["0.5", "2"])]).unwrap();
    let error = tune(&tuning, &Execution::default(), &mut ()).err().expect("refused").to_string();
    assert!(error.contains("no selection is accounted"), "{error}");
    // Nothing bounds the rows of undeclared data.
    let (features, labels) = images(40).into_parts();
    let rows = Dataset::new("rows", features, labels).unwrap();
    let mut training = Training::on_rows(rounds_models::data::TrainTest { train: rows, test: None }).private(1.0, 1e-5);
    training.data.features = Some(map("whiten"));
    let error = fit(&training, &Execution::default(), &mut ()).err().expect("refused").to_string();
    assert!(error.contains("a declared domain bounds the norm of rows"), "{error}");
}
