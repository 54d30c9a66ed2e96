//! `tls`: a directory of certificate authorities, requests and certificates, below `ca.cert_base_path` (`/etc/pki`). `x509`
//! makes what is signed; this is how older trees use it.

mod files;
mod make;
mod read;
mod revoke;
#[cfg(test)]
mod tests;

use super::declare::{Function, Module, args};
use files::{base, ca, get_ca, set_ca_path, signed};
use halite_wire::Value;

pub(super) const MODULE: Module = Module {
    name: "tls",
    functions: &[
        Function::new(
            "cert_base_path",
            |c| Ok(base(c).into()),
            "The directory of all authorities.",
        )
        .args(args![cacert_path = None]),
        Function::new(
            "set_ca_path",
            set_ca_path,
            "Sets the directory of all authorities for the rest of the run.",
        )
        .args(args![cacert_path]),
        Function::new("ca_exists", |c| Ok(ca(c)?.exists().into()), "Whether there is an authority.")
            .args(args![ca_name, cacert_path = None, ca_filename = None]),
        Function::new("get_ca", get_ca, "The path of an authority's certificate, or the certificate.")
            .args(args![ca_name, as_text = False, cacert_path = None]),
        Function::new(
            "get_ca_signed_cert",
            |c| signed(c, "cert_filename", "crt"),
            "The path of a certificate, or the certificate.",
        )
        .args(args![
            ca_name,
            CN = "localhost",
            as_text = False,
            cacert_path = None,
            cert_filename = None
        ]),
        Function::new(
            "get_ca_signed_key",
            |c| signed(c, "key_filename", "key"),
            "The path of a certificate's key, or the key.",
        )
        .args(args![
            ca_name,
            CN = "localhost",
            as_text = False,
            cacert_path = None,
            key_filename = None
        ]),
        Function::new("create_ca", make::create_ca, "Makes an authority, unless there is one.").args(args![
            ca_name,
            bits = {2048},
            days = {365},
            CN = "localhost",
            C = "US",
            ST = "Utah",
            L = "Salt Lake City",
            O = "SaltStack",
            OU = None,
            emailAddress = None,
            fixmode = False,
            cacert_path = None,
            ca_filename = None,
            digest = "sha256",
            onlyif = None,
            unless = None,
            replace = False
        ]),
        Function::new("create_csr", make::create_csr, "Makes a key and a request, unless there is one.").args(
            args![
                ca_name,
                bits = {2048},
                CN = "localhost",
                C = "US",
                ST = "Utah",
                L = "Salt Lake City",
                O = "SaltStack",
                OU = None,
                emailAddress = None,
                subjectAltName = None,
                cacert_path = None,
                ca_filename = None,
                csr_path = None,
                csr_filename = None,
                digest = "sha256",
                type_ext = False,
                cert_type = "server",
                replace = False
            ],
        ),
        Function::new(
            "create_ca_signed_cert",
            make::create_ca_signed_cert,
            "Signs a request, unless there is a certificate.",
        )
        .args(args![
            ca_name,
            CN,
            days = {365},
            cacert_path = None,
            ca_filename = None,
            cert_path = None,
            cert_filename = None,
            digest = "sha256",
            cert_type = None,
            type_ext = False,
            replace = False
        ]),
        Function::new(
            "create_self_signed_cert",
            make::create_self_signed_cert,
            "Makes a key and a certificate that it signs itself, unless there is one.",
        )
        .args(args![
            tls_dir = "tls",
            bits = {2048},
            days = {365},
            CN = "localhost",
            C = "US",
            ST = "Utah",
            L = "Salt Lake City",
            O = "SaltStack",
            OU = None,
            emailAddress = None,
            cacert_path = None,
            cert_filename = None,
            digest = "sha256",
            replace = False
        ]),
        Function::new("create_pkcs12", make::create_pkcs12, "Packs a certificate, its key and the authority for browsers.")
            .args(args![
                ca_name,
                CN,
                passphrase = "",
                cacert_path = None,
                replace = False
            ]),
        Function::new("cert_info", read::cert_info, "What a certificate says.")
            .args(args![cert, digest = "sha256"]),
        Function::new("get_expiration_date", read::get_expiration_date, "When a certificate expires, in UTC.")
            .args(args![cert, date_format = "%Y-%m-%d"]),
        Function::new(
            "get_extensions",
            |c| make::extensions(c, &c.text("cert_type").unwrap_or_default()).map(Value::from),
            "The extensions of a type of certificate: those of the pillar (tls.extensions), or the default.",
        )
        .args(args![cert_type]),
        Function::new("create_empty_crl", revoke::create_empty_crl, "Makes a revocation list without entries, unless there is one.")
            .args(args![
                ca_name,
                cacert_path = None,
                ca_filename = None,
                crl_file = None,
                digest = "sha256"
            ]),
        Function::new("revoke_cert", revoke::revoke_cert, "Revokes a certificate, and writes the revocation list again.")
            .args(args![
                ca_name,
                CN,
                cacert_path = None,
                ca_filename = None,
                cert_path = None,
                cert_filename = None,
                crl_file = None,
                digest = "sha256"
            ]),
        Function::new("validate", revoke::validate, "Whether a certificate is of an authority, in time, and not revoked.")
            .args(args![cert, ca_name, crl_file]),
        Function::new(
            "maybe_fix_ssl_version",
            |c| files::authority(&ca(c)?).map(|_| Value::Nil),
            "Nothing: authorities made here have the right version.",
        )
        .args(args![ca_name, cacert_path = None, ca_filename = None]),
    ],
};
