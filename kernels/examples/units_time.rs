use rounds_kernels::features::*;
use rounds_kernels::linear::*;
use rounds_kernels::loss::Loss;
use std::time::Instant;
fn main() {
    let (n, d, k) = (6000usize, 784usize, 10usize);
    let model = LinearModel { features: d, outputs: k, bias: true, loss: Loss::Softmax };
    let mut s = 1u32;
    let mut next = || {
        s = s.wrapping_mul(1664525).wrapping_add(1013904223);
        s >> 16
    };
    let bytes: Vec<u8> = (0..n * d)
        .map(|_| {
            let x = next();
            if x % 5 == 0 { (x >> 3) as u8 } else { 0 }
        })
        .collect();
    let stride = 832;
    let mut padded = vec![0u8; n * stride + 64];
    let off = padded.as_ptr().align_offset(64);
    for r in 0..n {
        padded[off + r * stride..][..d].copy_from_slice(&bytes[r * d..][..d]);
    }
    let u8rows = Rows::U8(U8Rows { values: &padded[off..off + n * stride], columns: d, stride, scale: 1.0 / 255.0 });
    let vals: Vec<f32> = bytes.iter().map(|&b| (b as f32 * 64.0 / 16384.0)).collect();
    let mut planes = Planes::zeroed(0, d, FeatureGrid::fixed_point(1.0));
    planes.append(&vals);
    let f32rows = Rows::f32(&vals, d).with_planes(Some(planes.view()));
    let classes: Vec<u32> = (0..n).map(|i| (i * 7 % k) as u32).collect();
    let w: Vec<f32> = (0..model.parameters()).map(|_| (next() as f32 / 32768.0 - 1.0) * 0.1).collect();
    for (name, rows, grid) in
        [("u8", u8rows, FeatureGrid::bytes(1.0 / 255.0)), ("f32", f32rows, FeatureGrid::fixed_point(1.0))]
    {
        for prec in [Precision::Bits16, Precision::Bits24] {
            let norms = row_norms(rows, true, Norm::L2).unwrap();
            let lattice = SumLattice::new(&model, (grid, prec), 1.0, Clip::l2(1.0), 60000).unwrap();
            let mut packed = PackedQuery::new(&model).unwrap();
            assert!(pack(&model, (Point::at(&w), None), &lattice, &mut packed));
            let mut ws = Workspace::new(&model);
            let mut sum = vec![0.0; model.parameters()];
            let sizes = [0usize, 2, 5, 10, 20, 50, 100, 128, 200, 500, 1000];
            let offs: Vec<Vec<usize>> = sizes
                .iter()
                .map(|&m| {
                    if m == 0 {
                        vec![0, n]
                    } else {
                        (0..=n / m).map(|u| u * m).chain((n % m != 0).then_some(n)).collect()
                    }
                })
                .collect();
            let prods: Vec<RowProducts> =
                offs.iter().map(|o| RowProducts::new(rows, true, o, 0..o.len() - 1, f64::from(grid.step))).collect();
            let mut best = vec![Vec::new(); sizes.len()];
            for _ in 0..40 {
                for (i, &m) in sizes.iter().enumerate() {
                    let targets = Targets::Classes(&classes);
                    let (selection, units) = if m == 0 {
                        (Selection::Range(0..n), None)
                    } else {
                        (
                            Selection::Range(0..offs[i].len() - 1),
                            Some(UnitRows { offsets: &offs[i], reduction: Reduction::Mean, products: &prods[i] }),
                        )
                    };
                    let batch = Batch { rows, targets, norms: Some(&norms), selection, units };
                    let t = Instant::now();
                    sum.fill(0.0);
                    accumulate_packed(&model, &batch, &packed, (&mut sum, 1.0), &mut ws).unwrap();
                    best[i].push(t.elapsed().as_secs_f64());
                }
            }
            let med = |v: &mut Vec<f64>| {
                v.sort_by(f64::total_cmp);
                v[v.len() / 3]
            };
            let base = med(&mut best[0]);
            print!("{name} {prec:?} base {:.1} ns/row:", base / n as f64 * 1e9);
            for i in 1..sizes.len() {
                print!(" {}:{:.2}", sizes[i], med(&mut best[i]) / base);
            }
            println!();
        }
    }
}
