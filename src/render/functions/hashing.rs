//! `hashutil.*` (`salt/modules/hashutil.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run};
use halite_crypto::HashType;
use halite_wire::{Value, base64};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "hashutil.digest",
        params: &["instr", "checksum"],
        required: 1,
        run: Run::Data(digest),
    },
    Function {
        name: "hashutil.md5_digest",
        params: &["instr"],
        required: 1,
        run: Run::Data(|_, c| Ok(HashType::Md5.hex(c.text("instr").as_bytes()).into())),
    },
    Function {
        name: "hashutil.sha256_digest",
        params: &["instr"],
        required: 1,
        run: Run::Data(|_, c| Ok(HashType::Sha256.hex(c.text("instr").as_bytes()).into())),
    },
    Function {
        name: "hashutil.sha512_digest",
        params: &["instr"],
        required: 1,
        run: Run::Data(|_, c| Ok(HashType::Sha512.hex(c.text("instr").as_bytes()).into())),
    },
    Function {
        name: "hashutil.base64_b64encode",
        params: &["instr"],
        required: 1,
        run: Run::Data(|_, c| Ok(base64::encode(c.text("instr").as_bytes()).into())),
    },
    Function {
        name: "hashutil.base64_b64decode",
        params: &["instr"],
        required: 1,
        run: Run::Data(decode),
    },
    Function {
        name: "hashutil.base64_encodestring",
        params: &["instr"],
        required: 1,
        run: Run::Data(|_, c| Ok(base64::encode_lines(c.text("instr").as_bytes()).into())),
    },
    Function {
        name: "hashutil.base64_decodestring",
        params: &["instr"],
        required: 1,
        run: Run::Data(decode),
    },
];

fn digest(_: &FunctionContext, call: &Call) -> CallResult {
    let name = match call.some("checksum") {
        None => "md5".to_owned(),
        Some(_) => call.text("checksum"),
    };
    match name.parse::<HashType>() {
        Ok(hash) => Ok(hash.hex(call.text("instr").as_bytes()).into()),
        Err(_) => Err(CallError::Function(format!(
            "Hash func '{name}' is not supported."
        ))),
    }
}

fn decode(_: &FunctionContext, call: &Call) -> CallResult {
    let octets = base64::decode(call.text("instr").as_bytes()).map_err(CallError::Other)?;
    Ok(match String::from_utf8(octets) {
        Ok(text) => text.into(),
        Err(e) => Value::Bytes(e.into_bytes()),
    })
}
