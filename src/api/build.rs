//! Writes the table of the console's files, so that a new file needs no line elsewhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("console");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut text = String::from(
        "/// The files of the console, by their paths.\nconst CONSOLE: &[(&str, &[u8])] = &[\n",
    );
    for file in files {
        let name = file.strip_prefix(&root)?.to_string_lossy().into_owned();
        writeln!(
            text,
            "    ({name:?}, include_bytes!({:?})),",
            file.display().to_string()
        )?;
    }
    text.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("console.rs"), text)?;
    Ok(())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
