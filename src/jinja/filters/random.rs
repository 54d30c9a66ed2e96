//! Filters with random results.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{FilterFn, integer, required, text_or};
use base64::Engine;
use halite_crypto::HashType;
use halite_wire::pyrandom::{Mersenne, Source};
use rand::Rng;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("gen_mac", gen_mac),
    ("rand_str", random_hash),
    ("random", random),
    ("random_hash", random_hash),
    ("random_sample", random_sample),
    ("random_shuffle", random_shuffle),
    ("random_str", random_str),
];

fn random(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_random", &[])?;
    let items = cx.iterate(value)?;
    if items.is_empty() {
        return Ok(cx.undefined("No random item, sequence was empty."));
    }
    let at = rand::thread_rng().gen_range(0..items.len());
    Ok(items[at].clone())
}

fn gen_mac(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("gen_mac", &[])?;
    let [a, b, c]: [u8; 3] = rand::random();
    Ok(format!("{}:{a:02X}:{b:02X}:{c:02X}", value.to_str()?).into())
}

/// The hash of a random number up to the value (`salt/utils/hashutils.py random_hash`).
fn random_hash(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("random_hash", &["hash_type"])?;
    let name = match &bound[0] {
        Some(Obj::None) => "md5",
        other => text_or(other, "md5")?,
    };
    let hash: HashType = name.parse().map_err(|_| {
        Error::new(
            ErrorKind::Attribute,
            format!("module 'hashlib' has no attribute '{name}'"),
        )
    })?;
    let most = integer(&Some(value.clone()), 0)?;
    if most < 0 {
        return Err(Error::value_error("empty range in randrange(0, 0)"));
    }
    let number = rand::thread_rng().gen_range(0..=most);
    Ok(hash.hex(number.to_string().as_bytes()).into())
}

fn random_str(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("random", &[])?;
    let size = usize::try_from(integer(&Some(value.clone()), 32)?)
        .map_err(|_| Error::value_error("negative argument not allowed"))?;
    cx.check_size(size)?;
    let mut key = vec![0; size];
    halite_crypto::fill_random(&mut key);
    let mut text = base64::engine::general_purpose::STANDARD.encode(key);
    text.truncate(size);
    Ok(text.into())
}

/// Salt hashes the given seed (`salt/utils/data.py sample`).
fn source(seed: &Option<Obj>) -> Result<Source, Error> {
    let seed = match seed {
        None | Some(Obj::None) => return Ok(Source::System),
        Some(Obj::Bytes(bytes)) => bytes.to_vec(),
        Some(other) => match other.as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => {
                return Err(Error::type_error(
                    "object supporting the buffer API required",
                ));
            }
        },
    };
    let seed = HashType::Sha512.hex(&seed);
    Ok(Source::Seeded(Box::new(Mersenne::from_text(&seed))))
}

/// `random.Random.sample`.
fn sample(cx: &mut Cx, value: &Obj, size: i64, seed: &Option<Obj>) -> Result<Obj, Error> {
    if !matches!(
        value,
        Obj::List(_) | Obj::Tuple(_) | Obj::Range(_) | Obj::Str(_)
    ) {
        if let Obj::Undefined(missing) = value {
            return Err(missing.error());
        }
        return Err(Error::type_error(
            "Population must be a sequence.  For dicts or sets, use sorted(d).",
        ));
    }
    let pool = cx.iterate(value)?;
    let places = match usize::try_from(size) {
        Ok(k) => source(seed)?.sample(pool.len(), k),
        Err(_) => None,
    };
    let places =
        places.ok_or_else(|| Error::value_error("Sample larger than population or is negative"))?;
    Ok(Obj::list(
        places.into_iter().map(|at| pool[at].clone()).collect(),
    ))
}

fn random_sample(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("sample", &["size", "seed"], 1)?;
    let size = integer(&Some(required(&bound[0])), 0)?;
    sample(cx, value, size, &bound[1])
}

fn random_shuffle(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("shuffle", &["seed"])?;
    let size = value.length()? as i64;
    sample(cx, value, size, &bound[0])
}
