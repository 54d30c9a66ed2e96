//! Names and object identifiers.

/// Attributes of names by Salt's names, in the order of `subject` maps.
pub const ATTRIBUTES: [(&str, &str); 12] = [
    ("C", "2.5.4.6"),
    ("ST", "2.5.4.8"),
    ("L", "2.5.4.7"),
    ("STREET", "2.5.4.9"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("CN", "2.5.4.3"),
    ("MAIL", "1.2.840.113549.1.9.1"),
    ("SN", "2.5.4.4"),
    ("GN", "2.5.4.42"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("SERIALNUMBER", "2.5.4.5"),
];

/// Attributes by the names of RFC 4514.
pub const RFC4514: [(&str, &str); 9] = [
    ("CN", "2.5.4.3"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", "2.5.4.6"),
    ("STREET", "2.5.4.9"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
];

/// Long names that are still accepted for keywords.
pub const LONG_NAMES: [(&str, &str); 32] = [
    ("commonName", "CN"),
    ("localityName", "L"),
    ("stateOrProvinceName", "ST"),
    ("organizationName", "O"),
    ("organizationUnitName", "OU"),
    ("givenName", "GN"),
    ("surname", "SN"),
    ("Email", "MAIL"),
    ("emailAddress", "MAIL"),
    ("serialNumber", "SERIALNUMBER"),
    ("X509v3 Basic Constraints", "basicConstraints"),
    ("X509v3 Key Usage", "keyUsage"),
    ("X509v3 Extended Key Usage", "extendedKeyUsage"),
    ("X509v3 Subject Key Identifier", "subjectKeyIdentifier"),
    ("X509v3 Authority Key Identifier", "authorityKeyIdentifier"),
    ("X509v3 Issuer Alternative Name", "issuerAltName"),
    ("issuserAltName", "issuerAltName"),
    ("Authority Information Access", "authorityInfoAccess"),
    ("X509v3 Subject Alternative Name", "subjectAltName"),
    ("X509v3 CRL Distribution Points", "crlDistributionPoints"),
    (
        "X509v3 Issuing Distribution Point",
        "issuingDistributionPoint",
    ),
    ("X509v3 Certificate Policies", "certificatePolicies"),
    ("X509v3 Policy Constraints", "policyConstraints"),
    ("X509v3 Inhibit Any Policy", "inhibitAnyPolicy"),
    ("X509v3 Name Constraints", "nameConstraints"),
    ("OCSP No Check", "noCheck"),
    ("TLS Feature", "tlsfeature"),
    ("Netscape Comment", "nsComment"),
    ("Netscape Certificate Type", "nsCertType"),
    ("X509v3 CRLNumber", "cRLNumber"),
    ("X509v3 Delta CRL Indicator", "deltaCRLIndicator"),
    ("x509v3 Freshest CRL", "freshestCRL"),
];

/// Extensions by Salt's names, each with the name that changes show.
pub const EXTENSIONS: [(&str, &str, &str); 19] = [
    ("basicConstraints", "2.5.29.19", "basicConstraints"),
    ("keyUsage", "2.5.29.15", "keyUsage"),
    ("extendedKeyUsage", "2.5.29.37", "extendedKeyUsage"),
    ("subjectKeyIdentifier", "2.5.29.14", "subjectKeyIdentifier"),
    (
        "authorityKeyIdentifier",
        "2.5.29.35",
        "authorityKeyIdentifier",
    ),
    ("issuerAltName", "2.5.29.18", "issuerAltName"),
    (
        "authorityInfoAccess",
        "1.3.6.1.5.5.7.1.1",
        "authorityInfoAccess",
    ),
    ("subjectAltName", "2.5.29.17", "subjectAltName"),
    (
        "crlDistributionPoints",
        "2.5.29.31",
        "cRLDistributionPoints",
    ),
    (
        "issuingDistributionPoint",
        "2.5.29.28",
        "issuingDistributionPoint",
    ),
    ("certificatePolicies", "2.5.29.32", "certificatePolicies"),
    ("policyConstraints", "2.5.29.36", "policyConstraints"),
    ("inhibitAnyPolicy", "2.5.29.54", "inhibitAnyPolicy"),
    ("nameConstraints", "2.5.29.30", "nameConstraints"),
    ("noCheck", "1.3.6.1.5.5.7.48.1.5", "OCSPNoCheck"),
    ("tlsfeature", "1.3.6.1.5.5.7.1.24", "TLSFeature"),
    ("cRLNumber", "2.5.29.20", "cRLNumber"),
    ("deltaCRLIndicator", "2.5.29.27", "deltaCRLIndicator"),
    ("freshestCRL", "2.5.29.46", "freshestCRL"),
];

/// Where [`EXTENSIONS`] has the number of a list.
pub const CRL_NUMBER: usize = 16;

/// Extensions that are never set by us, for changes.
const OTHER_EXTENSIONS: [(&str, &str); 9] = [
    ("2.5.29.9", "subjectDirectoryAttributes"),
    ("2.5.29.16", "privateKeyUsagePeriod"),
    ("2.5.29.33", "policyMappings"),
    ("1.3.6.1.5.5.7.1.11", "subjectInfoAccess"),
    ("1.3.6.1.4.1.11129.2.4.2", "signedCertificateTimestampList"),
    ("1.3.6.1.4.1.11129.2.4.5", "signedCertificateTimestampList"),
    ("1.3.6.1.4.1.11129.2.4.3", "ctPoison"),
    ("1.3.6.1.4.1.311.21.7", "msCertificateTemplate"),
    ("1.3.36.8.3.3", "Admissions"),
];

/// Extensions of entries of a revocation list.
pub const ENTRY_EXTENSIONS: [(&str, &str); 3] = [
    ("certificateIssuer", "2.5.29.29"),
    ("CRLReason", "2.5.29.21"),
    ("invalidityDate", "2.5.29.24"),
];

/// The order in which certificates get their extensions.
pub const CERT_EXTENSIONS: [&str; 17] = [
    "basicConstraints",
    "keyUsage",
    "extendedKeyUsage",
    "subjectKeyIdentifier",
    "authorityKeyIdentifier",
    "issuerAltName",
    "authorityInfoAccess",
    "subjectAltName",
    "crlDistributionPoints",
    "certificatePolicies",
    "policyConstraints",
    "inhibitAnyPolicy",
    "nameConstraints",
    "noCheck",
    "tlsfeature",
    "nsComment",
    "nsCertType",
];

/// Extensions that a revocation list may have.
pub const CRL_EXTENSIONS: [&str; 7] = [
    "authorityKeyIdentifier",
    "authorityInfoAccess",
    "cRLNumber",
    "deltaCRLIndicator",
    "freshestCRL",
    "issuerAltName",
    "issuingDistributionPoint",
];

/// Extensions that a request may not have and that are not taken from one.
pub const CSR_FORBIDDEN: [&str; 4] = [
    "authorityInfoAccess",
    "authorityKeyIdentifier",
    "issuerAltName",
    "crlDistributionPoints",
];

/// Usages of keys by name.
pub const USAGES: [(&str, &str); 13] = [
    ("serverAuth", "1.3.6.1.5.5.7.3.1"),
    ("clientAuth", "1.3.6.1.5.5.7.3.2"),
    ("codeSigning", "1.3.6.1.5.5.7.3.3"),
    ("emailProtection", "1.3.6.1.5.5.7.3.4"),
    ("timeStamping", "1.3.6.1.5.5.7.3.8"),
    ("OCSPSigning", "1.3.6.1.5.5.7.3.9"),
    ("msSmartcardLogin", "1.3.6.1.4.1.311.20.2.2"),
    ("pkInitKDC", "1.3.6.1.5.2.3.5"),
    ("ipsecIKE", "1.3.6.1.5.5.7.3.17"),
    ("msCodeInd", "1.3.6.1.4.1.311.2.1.21"),
    ("msCodeCom", "1.3.6.1.4.1.311.2.1.22"),
    ("msCTLSign", "1.3.6.1.4.1.311.10.3.1"),
    ("msEFS", "1.3.6.1.4.1.311.10.3.4"),
];

/// How many of [`USAGES`] are shown by name.
pub const SHOWN_USAGES: usize = 8;

/// Kinds of access.
pub const ACCESS: [(&str, &str); 3] = [
    ("OCSP", "1.3.6.1.5.5.7.48.1"),
    ("caIssuers", "1.3.6.1.5.5.7.48.2"),
    ("caRepository", "1.3.6.1.5.5.7.48.5"),
];

/// Reasons of a revocation: the name and its number in an entry.
pub const REASONS: [(&str, u8); 10] = [
    ("unspecified", 0),
    ("keyCompromise", 1),
    ("cACompromise", 2),
    ("affiliationChanged", 3),
    ("superseded", 4),
    ("cessationOfOperation", 5),
    ("certificateHold", 6),
    ("removeFromCRL", 8),
    ("privilegeWithdrawn", 9),
    ("aACompromise", 10),
];

/// Reasons in a distribution point: the name of each bit after the first one.
pub const REASON_BITS: [&str; 8] = [
    "keyCompromise",
    "cACompromise",
    "affiliationChanged",
    "superseded",
    "cessationOfOperation",
    "certificateHold",
    "privilegeWithdrawn",
    "aACompromise",
];

/// Bits of `keyUsage`.
pub const KEY_BITS: [&str; 9] = [
    "digitalSignature",
    "nonRepudiation",
    "keyEncipherment",
    "dataEncipherment",
    "keyAgreement",
    "keyCertSign",
    "cRLSign",
    "encipherOnly",
    "decipherOnly",
];

/// Signature algorithms: identifier, key, hash and the name that is shown, if there is one.
pub const SIGNATURES: [(&str, &str, &str, &str); 19] = [
    ("1.2.840.113549.1.1.4", "rsa", "md5", "md5WithRSAEncryption"),
    (
        "1.2.840.113549.1.1.5",
        "rsa",
        "sha1",
        "sha1WithRSAEncryption",
    ),
    (
        "1.2.840.113549.1.1.14",
        "rsa",
        "sha224",
        "sha224WithRSAEncryption",
    ),
    (
        "1.2.840.113549.1.1.11",
        "rsa",
        "sha256",
        "sha256WithRSAEncryption",
    ),
    (
        "1.2.840.113549.1.1.12",
        "rsa",
        "sha384",
        "sha384WithRSAEncryption",
    ),
    (
        "1.2.840.113549.1.1.13",
        "rsa",
        "sha512",
        "sha512WithRSAEncryption",
    ),
    ("2.16.840.1.101.3.4.3.13", "rsa", "sha3_224", ""),
    ("2.16.840.1.101.3.4.3.14", "rsa", "sha3_256", ""),
    ("2.16.840.1.101.3.4.3.15", "rsa", "sha3_384", ""),
    ("2.16.840.1.101.3.4.3.16", "rsa", "sha3_512", ""),
    ("1.2.840.10045.4.1", "ec", "sha1", "ecdsa-with-SHA1"),
    ("1.2.840.10045.4.3.1", "ec", "sha224", "ecdsa-with-SHA224"),
    ("1.2.840.10045.4.3.2", "ec", "sha256", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ec", "sha384", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ec", "sha512", "ecdsa-with-SHA512"),
    ("2.16.840.1.101.3.4.3.9", "ec", "sha3_224", ""),
    ("2.16.840.1.101.3.4.3.10", "ec", "sha3_256", ""),
    ("2.16.840.1.101.3.4.3.11", "ec", "sha3_384", ""),
    ("2.16.840.1.101.3.4.3.12", "ec", "sha3_512", ""),
];

/// The hash of a signature: nothing for keys that have none of their own, an error for unknown ones.
pub fn hash_of(signature: &str) -> Result<Option<&'static str>, ()> {
    if ["1.3.101.112", "1.3.101.113"].contains(&signature) {
        return Ok(None);
    }
    let found = SIGNATURES.iter().find(|s| s.0 == signature);
    found.map(|s| Some(s.2)).ok_or(())
}

/// How a signature algorithm is shown.
pub fn signature_name(signature: &str) -> &str {
    match signature {
        "1.3.101.112" => "ed25519",
        "1.3.101.113" => "ed448",
        "1.2.840.113549.1.1.10" => "rsassaPss",
        "1.2.840.10040.4.3" => "dsa-with-sha1",
        "2.16.840.1.101.3.4.3.1" => "dsa-with-sha224",
        "2.16.840.1.101.3.4.3.2" => "dsa-with-sha256",
        other => {
            let found = SIGNATURES.iter().find(|s| s.0 == other);
            found
                .map(|s| s.3)
                .filter(|s| !s.is_empty())
                .unwrap_or(UNKNOWN)
        }
    }
}

/// What stands for identifiers without a name.
pub const UNKNOWN: &str = "Unknown OID";

/// How changes name an extension.
pub fn extension_name(oid: &str) -> &'static str {
    let own = EXTENSIONS.iter().find(|e| e.1 == oid).map(|e| e.2);
    let other = || OTHER_EXTENSIONS.iter().find(|e| e.0 == oid).map(|e| e.1);
    own.or_else(other).unwrap_or(UNKNOWN)
}

/// The identifier under a name of a table.
pub fn oid_of(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// The name of an identifier in a table.
pub fn name_of(table: &[(&'static str, &str)], oid: &str) -> Option<&'static str> {
    table.iter().find(|row| row.1 == oid).map(|row| row.0)
}
