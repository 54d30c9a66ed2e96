"""Digests and base64."""
import base64
import hashlib
import hmac

from salt.utils.stringutils import to_bytes


def _text(value):
    """Text if the bytes are some."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def base64_b64encode(instr):
    return base64.b64encode(to_bytes(instr)).decode("ascii")


def base64_b64decode(instr):
    return _text(base64.b64decode(to_bytes(instr)))


def base64_encodestring(instr):
    return base64.encodebytes(to_bytes(instr)).decode("ascii")


def base64_decodestring(instr):
    return _text(base64.decodebytes(to_bytes(instr)))


def md5_digest(instr):
    return hashlib.md5(to_bytes(instr)).hexdigest()


def sha1_digest(instr):
    return hashlib.sha1(to_bytes(instr)).hexdigest()


def sha256_digest(instr):
    return hashlib.sha256(to_bytes(instr)).hexdigest()


def sha512_digest(instr):
    return hashlib.sha512(to_bytes(instr)).hexdigest()


def _hmac(string, shared_secret):
    return hmac.new(to_bytes(shared_secret), to_bytes(string), hashlib.sha256)


def hmac_signature(string, shared_secret, challenge_hmac):
    """Whether a text has this signature: base64 of HMAC-SHA256."""
    return hmac.compare_digest(base64.b64encode(_hmac(string, shared_secret).digest()), to_bytes(challenge_hmac))


def hmac_compute(string, shared_secret):
    """HMAC-SHA256 in hexadecimal."""
    return _hmac(string, shared_secret).hexdigest()


def random_hash(size=9999999999, hash_type=None):
    """The digest of a random number."""
    import secrets

    return getattr(hashlib, hash_type or "md5")(b"%d" % secrets.randbelow(size + 1)).hexdigest()


def get_hash(path, form="sha256", chunk_size=65536):
    """The digest of a file."""
    kind = getattr(hashlib, form, None)
    if kind is None:
        raise ValueError("Invalid hash type: {}".format(form))
    made = kind()
    with open(path, "rb") as file:
        while True:
            chunk = file.read(chunk_size)
            if not chunk:
                return made.hexdigest()
            made.update(chunk)
